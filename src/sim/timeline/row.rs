//! Rows of bars and labels in a picture. Neither bars nor labels of a row overlap.

/// The width of a character of a label, in pixels.
pub(super) const CHARACTER: f64 = 6.4;

/// The gap between labels.
const GAP: f64 = 10.0;

/// A bar with its label below.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) from: f64,
    pub(super) until: f64,
    /// The position from which the bar is solid.
    pub(super) solid: Option<f64>,
    /// The colours of the stripes.
    pub(super) colours: Vec<&'static str>,
    pub(super) label: BarLabel,
    /// The full text, shown on hovering.
    pub(super) title: String,
    /// The position of the announcement of a loss.
    pub(super) announced: Option<f64>,
    /// Whether the lease ended without an unlock.
    pub(super) is_cut: bool,
}

impl Bar {
    /// Returns the position of the label.
    fn label_at(&self) -> f64 {
        self.solid.unwrap_or(self.from)
    }
}

/// The label below a bar.
#[derive(Clone, Debug)]
pub(super) enum BarLabel {
    /// A number. If space is short, only its last digits are shown, because these differ from bar
    /// to bar.
    Number(String),
    /// Text. If space is short, only its beginning is shown.
    Words(String),
}

impl BarLabel {
    /// Returns the part of the label that fits.
    fn fit(&self, width: f64) -> Option<String> {
        let room = (width / CHARACTER).max(0.0) as usize;
        let (Self::Number(full) | Self::Words(full)) = self;
        let length = full.chars().count();
        if full.is_empty() || length <= room {
            return Some(full.clone()).filter(|full| !full.is_empty());
        }
        match self {
            Self::Number(_) if room >= 5 => {
                Some(std::iter::once('…').chain(full.chars().skip(length.saturating_sub(4))).collect())
            }
            Self::Words(_) if room >= 4 => Some(full.chars().take(room - 1).chain(['…']).collect()),
            _ => None,
        }
    }
}

/// A row of bars that do not overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct TimelineRow {
    pub(super) bars: Vec<Bar>,
}

impl TimelineRow {
    /// Distributes the bars over as few rows as possible: each bar goes into the first row with
    /// space.
    pub(super) fn pack(mut bars: Vec<Bar>) -> Vec<Self> {
        bars.sort_by(|a, b| a.from.total_cmp(&b.from));
        let mut rows: Vec<Self> = Vec::new();
        for bar in bars {
            match rows.iter_mut().find(|row| row.end() <= bar.from) {
                Some(row) => row.bars.push(bar),
                None => rows.push(Self { bars: vec![bar] }),
            }
        }
        rows
    }

    fn end(&self) -> f64 {
        self.bars.last().map_or(f64::NEG_INFINITY, |bar| bar.until)
    }

    /// Returns the labels that fit, with their positions.
    pub(super) fn labels(&self, right: f64) -> Vec<(f64, String)> {
        let following = self.bars.iter().skip(1).map(|bar| bar.label_at() - GAP).chain([right]);
        let fitted = self.bars.iter().zip(following).filter_map(|(bar, limit)| {
            let at = bar.label_at();
            bar.label.fit(limit - at).map(|text| (at, text))
        });
        fitted.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(from: f64, until: f64, label: &str) -> Bar {
        let (label, title) = (BarLabel::Number(label.to_owned()), String::new());
        Bar { from, until, solid: None, colours: Vec::new(), label, title, announced: None, is_cut: false }
    }

    #[test]
    fn overlapping_bars_are_put_into_different_rows() {
        let rows = TimelineRow::pack(vec![
            bar(5.0, 9.0, "c"),
            bar(0.0, 4.0, "a"),
            bar(2.0, 6.0, "b"),
            bar(6.0, 7.0, "d"),
        ]);
        let starts: Vec<Vec<f64>> =
            rows.iter().map(|row| row.bars.iter().map(|bar| bar.from).collect()).collect();
        assert_eq!(starts, [vec![0.0, 5.0], vec![2.0, 6.0]]);
    }

    #[test]
    fn labels_are_shortened_to_their_last_digits_or_left_out() {
        let bars = vec![
            bar(0.0, 9.0, "1700000000000002"),
            bar(45.0, 50.0, "1700000000000003"),
            bar(60.0, 61.0, "44"),
        ];
        let labels = TimelineRow { bars }.labels(200.0);
        assert_eq!(labels, [(0.0, "…0002".to_owned()), (60.0, "44".to_owned())]);
    }

    #[test]
    fn long_words_are_cut_at_their_end() {
        let words = BarLabel::Words("partitioned from c1".to_owned());
        assert_eq!(words.fit(CHARACTER * 8.5).as_deref(), Some("partiti…"));
        assert_eq!(words.fit(CHARACTER * 3.0), None);
    }
}
