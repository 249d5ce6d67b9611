//! Rules of readers, broken.

use crate::{
    mutation::Mutation,
    node::{
        operation::{Answer, Enqueue, Lock, Operation, Renew, Unlock, WriteBack},
        parameters::QuorumParameters,
        state::{HeldKey, NodeState, NodeTime, Readers, Subscribers, counters::start},
    },
    values::Resource,
};

impl NodeState {
    /// Executes one operation of a reader by all rules but this one.
    pub(super) fn share_broken(
        &mut self,
        rule: Mutation,
        parameters: &QuorumParameters,
        operation: &Operation,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        use Mutation as M;
        let (Operation::Lock(Lock { resources, .. })
        | Operation::Enqueue(Enqueue { lock: Lock { resources, .. }, .. })
        | Operation::WriteBack(WriteBack { resources, .. })
        | Operation::Renew(Renew { resources, .. })
        | Operation::Unlock(Unlock { resources, .. })) = operation
        else {
            return self.execute(parameters, operation, now, subscribers);
        };
        let shared: Vec<_> =
            resources.each().filter(|(_, is_shared)| *is_shared).map(|(name, _)| name).collect();
        let before = self.clone();
        let mut answer = self.execute(parameters, operation, now, subscribers)?;
        for name in shared {
            match (rule, operation, &answer) {
                (M::FirstReaderRepeats, _, Answer::Granted { vote })
                    if before.readers(name, now).is_none() =>
                {
                    let vote = vote.saturating_sub(1);
                    self.count(parameters, name, vote, now);
                    self.change_readers(name, |readers| (readers.phase, readers.epoch) = (vote, vote));
                    answer = Answer::Granted { vote };
                }
                (
                    M::WriteBackOfNoReader | M::WriteBackBelowPhase,
                    Operation::WriteBack(WriteBack { owner, token, .. }),
                    Answer::NotWrittenBack { .. },
                ) => {
                    let phase = self.readers(name, now).map_or_else(|| start(now), |readers| readers.phase);
                    let may_write = match rule {
                        M::WriteBackOfNoReader => phase <= *token,
                        _ => self.is_reader(name, owner, now),
                    };
                    if may_write {
                        let counter = self.counter(name, now).map_or(0, |counter| counter.value);
                        self.raise(name, *token, now);
                        self.count(parameters, name, counter.max(*token), now);
                        answer = Answer::WrittenBack;
                    }
                }
                (M::OneEndForReaders, Operation::Unlock(Unlock { owner, .. }), _) => {
                    let end = before.readers(name, now).and_then(|readers| readers.ends.get(owner)).copied();
                    if let Some((end, held)) = end.zip(self.held(name, now).cloned()) {
                        self.set_lock(name, Some(HeldKey { expires_at: end, ..held }));
                        self.change_readers(name, |readers| readers.expires_at = end);
                    }
                }
                (M::UnshareAnyKey, Operation::Unlock(_), _) => self.set_lock(name, None),
                (M::UnshareForAll, Operation::Unlock(_), _) if self.readers(name, now).is_some() => {
                    self.set_lock(name, None);
                }
                (M::KeepPhase, Operation::Unlock(_), _) if !self.readers.contains_key(name) => {
                    self.readers.extend(before.readers.get_key_value(name).map(|(name, left)| {
                        (name.clone(), Readers { ends: std::collections::BTreeMap::new(), ..left.clone() })
                    }));
                }
                (M::KeepPhase, _, _) if before.readers(name, now).is_none() => {
                    let left = before.readers.get(name).map(|left| left.phase);
                    self.change_readers(name, |readers| readers.phase = left.unwrap_or(readers.phase));
                }
                _ => {}
            }
        }
        Ok(answer)
    }

    fn change_readers(&mut self, resource: &Resource, change: impl FnOnce(&mut Readers)) {
        self.readers.get_mut(resource).map(change);
    }
}
