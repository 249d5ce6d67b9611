//! The resources of one lock.

use std::{ops::Deref, sync::Arc};

use crate::values::Resource;

/// The resources of one lock, each exclusive or shared. The callers of the conversions below pass at least one name,
/// sorted and without repetition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Resources {
    names: Arc<[Resource]>,
    /// Whether each resource is shared. `None` if no resource is shared, so that the same resources have one
    /// representation, and equal values compare as equal.
    shared: Option<Arc<[bool]>>,
}

impl Resources {
    /// Returns the same resources, all of them shared.
    #[must_use]
    pub(crate) fn shared(self) -> Self {
        let shared = Some(self.names.iter().map(|_| true).collect());
        Self { shared, ..self }
    }

    /// Returns the same resources, all of them exclusive.
    #[must_use]
    pub(crate) fn exclusive(self) -> Self {
        Self { shared: None, ..self }
    }

    /// Whether the resource at `index` is shared.
    pub(crate) fn is_shared(&self, index: usize) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.get(index) == Some(&true))
    }

    /// Whether any resource is shared.
    pub(crate) fn is_any_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether all resources are shared.
    pub(crate) fn are_all_shared(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| !shared.contains(&false))
    }

    /// Whether a lease on these resources permits everything that a lease on `wanted` permits. Both have the
    /// same names, and may differ in which of the names are shared.
    pub(crate) fn cover(&self, wanted: &Self) -> bool {
        (0..self.names.len()).all(|index| wanted.is_shared(index) || !self.is_shared(index))
    }

    /// Returns each resource, and whether it is shared.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Resource, bool)> {
        self.names.iter().enumerate().map(|(index, name)| (name, self.is_shared(index)))
    }
}

impl Deref for Resources {
    type Target = [Resource];

    fn deref(&self) -> &[Resource] {
        &self.names
    }
}

/// Returns exclusive resources.
impl<N: Into<Arc<[Resource]>>> From<N> for Resources {
    fn from(names: N) -> Self {
        Self { names: names.into(), shared: None }
    }
}

/// Returns exclusive resources.
impl FromIterator<Resource> for Resources {
    fn from_iter<I: IntoIterator<Item = Resource>>(names: I) -> Self {
        Self { names: names.into_iter().collect(), shared: None }
    }
}

impl FromIterator<(Resource, bool)> for Resources {
    fn from_iter<I: IntoIterator<Item = (Resource, bool)>>(each: I) -> Self {
        let (names, shared): (Vec<_>, Vec<_>) = each.into_iter().unzip();
        let shared = shared.contains(&true).then(|| shared.into());
        Self { names: names.into(), shared }
    }
}
