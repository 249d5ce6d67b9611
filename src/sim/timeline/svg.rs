//! The picture of a timeline.

use svg::{
    Document, Node,
    node::element::{Group, Line, Polygon, Rectangle, Text, Title},
};

use super::{
    Timeline,
    axis::Axis,
    lanes::{self, BROKEN, Lane, Palette},
    row::{Bar, CHARACTER, TimelineRow},
};

/// The space at the edges, in pixels, as all sizes here.
const MARGIN: f64 = 16.0;
/// The height of the legend.
const HEAD: f64 = 40.0;
/// The height of the scale.
const FOOT: f64 = 32.0;
/// The height of a bar.
const BAR: f64 = 15.0;
/// The height of a bar, its label, and a gap.
const ROW: f64 = BAR + 18.0;
const LANE_GAP: f64 = 8.0;
/// The height of a line of text in the list of violations, which is below the scale.
const VIOLATION_LINE: f64 = 15.0;
/// The largest number of violations that are written out.
const MAX_VIOLATIONS: usize = 20;
const INK: &str = "#1F2933";
const FAINT: &str = "#D5DAE1";

/// Returns the picture: the legend, the lanes below each other, the scale, and the violations. The lanes
/// are 960 to 3200 pixels wide, by the number of leases, so that most tokens fit.
pub(super) fn draw(timeline: &Timeline<'_>) -> String {
    let leases = timeline.index.iter().filter(|record| record.granted.is_some()).count();
    let faults = timeline.faults.iter().map(|fault| fault.lane.as_str());
    let widest = faults.chain(["violations"]).map(|name| name.chars().count()).max().unwrap_or(0);
    let axis = Axis::new(
        MARGIN + 12.0 + widest as f64 * (CHARACTER + 1.0),
        (leases as f64 * 36.0).clamp(960.0, 3200.0),
        timeline.end,
    );
    let palette = lanes::palette(timeline);
    let lanes = lanes::lanes(timeline, &palette, &axis);
    let sentences = violation_lines(timeline, &axis);

    let bottom = HEAD + lanes.iter().map(height).sum::<f64>();
    let right = axis.right() + 3.0 * MARGIN;
    let full = bottom + FOOT + sentences.len() as f64 * VIOLATION_LINE + MARGIN;
    let mut picture = Document::new()
        .set("viewBox", (0, 0, right.ceil(), full.ceil()))
        .set("width", right.ceil())
        .set("height", full.ceil())
        .set("font-family", "sans-serif")
        .set("font-size", 10)
        .set("fill", INK);
    // The picture may be shown on a dark page.
    picture.append(rectangle(0.0, 0.0, right, full, "#FFFFFF"));
    picture.append(legend(&palette, &axis));
    picture.append(grid(&axis, bottom));
    let mut top = HEAD;
    for lane in &lanes {
        picture.append(lane_group(lane, &axis, top));
        top += height(lane);
    }
    for (index, sentence) in sentences.into_iter().enumerate() {
        picture.append(
            text(MARGIN, bottom + FOOT + (index as f64 + 0.7) * VIOLATION_LINE, sentence).set("fill", BROKEN),
        );
    }
    picture.to_string()
}

fn height(lane: &Lane) -> f64 {
    lane.rows.len().max(1) as f64 * ROW + LANE_GAP
}

/// Returns the text of the violations in lines as wide as the picture.
fn violation_lines(timeline: &Timeline<'_>, axis: &Axis) -> Vec<String> {
    let room = ((axis.right() - MARGIN) / CHARACTER) as usize;
    let mut lines = Vec::new();
    for (index, violation) in timeline.violations.iter().take(MAX_VIOLATIONS).enumerate() {
        let mut line = format!("{}.", index + 1);
        for word in violation.to_string().split(' ') {
            if line.chars().count() + 1 + word.chars().count() > room {
                lines.push(std::mem::replace(&mut line, " ".repeat(3)));
            }
            line.push(' ');
            line.push_str(word);
        }
        lines.push(line);
    }
    match timeline.violations.len().checked_sub(MAX_VIOLATIONS) {
        None | Some(0) => {}
        Some(more) => lines.push(format!("and {more} more")),
    }
    lines
}

fn legend(palette: &Palette<'_>, axis: &Axis) -> Group {
    let mut legend = Group::new();
    let mut x = axis.left;
    let meanings = [("#9AA5B1", 0.3, "asked for"), ("#9AA5B1", 1.0, "held")]
        .map(|(colour, opacity, name)| (colour, opacity, name.to_owned()));
    let resources = palette.iter().map(|(resource, colour)| (*colour, 1.0, resource.to_string()));
    for (colour, opacity, name) in meanings.into_iter().chain(resources) {
        legend.append(rectangle(x, 10.0, 12.0, 10.0, colour).set("fill-opacity", opacity));
        let named_at = x + 16.0;
        x = named_at + name.chars().count() as f64 * CHARACTER + 16.0;
        legend.append(text(named_at, 19.0, name));
        if x > axis.right() - 200.0 {
            break;
        }
    }
    legend.append(vertical(x, 9.0, 21.0, INK).set("stroke-width", 2));
    legend.append(text(x + 6.0, 19.0, "not unlocked"));
    legend.append(announcement(x + 112.0, 20.0));
    legend.append(text(x + 122.0, 19.0, "loss announced"));
    legend
}

fn grid(axis: &Axis, bottom: f64) -> Group {
    let mut grid = Group::new();
    for (x, label) in axis.ticks() {
        grid.append(vertical(x, HEAD - 8.0, bottom + 4.0, FAINT));
        grid.append(text(x, bottom + 16.0, label).set("text-anchor", "middle"));
    }
    grid
}

fn lane_group(lane: &Lane, axis: &Axis, top: f64) -> Group {
    let mut group = Group::new();
    let rule =
        Line::new().set("x1", MARGIN).set("x2", axis.right()).set("y1", top - 4.0).set("y2", top - 4.0);
    group.append(rule.set("stroke", FAINT));
    group.append(
        text(MARGIN, top + BAR - 4.0, lane.name.as_str()).set("font-size", 11).set("font-weight", "bold"),
    );
    for (index, row) in lane.rows.iter().enumerate() {
        append_row(row, axis, top + index as f64 * ROW, &mut group);
    }
    for x in &lane.broken {
        let mark = vertical(*x, top - 4.0, top + height(lane) - LANE_GAP - 2.0, BROKEN);
        group.append(mark.set("stroke-width", 2).set("stroke-dasharray", "4 2"));
    }
    group
}

fn append_row(row: &TimelineRow, axis: &Axis, top: f64, group: &mut Group) {
    for bar in &row.bars {
        group.append(bar_group(bar, top));
    }
    for (x, label) in row.labels(axis.right() + 2.0 * MARGIN) {
        group.append(text(x, top + BAR + 10.0, label));
    }
}

fn bar_group(bar: &Bar, top: f64) -> Group {
    let mut group = Group::new();
    group.append(Title::new(bar.title.as_str()));
    let stripe = BAR / bar.colours.len().max(1) as f64;
    let solid = bar.solid.unwrap_or(bar.until);
    for (index, colour) in bar.colours.iter().enumerate() {
        let y = top + index as f64 * stripe;
        group.append(rectangle(bar.from, y, solid - bar.from, stripe, colour).set("fill-opacity", 0.3));
        if bar.solid.is_some() {
            group.append(rectangle(solid, y, (bar.until - solid).max(1.5), stripe, colour));
        }
    }
    if bar.is_cut {
        group.append(vertical(bar.until, top - 1.0, top + BAR + 1.0, INK).set("stroke-width", 2));
    }
    if let Some(x) = bar.announced {
        group.append(announcement(x, top + BAR));
    }
    group
}

/// Returns a triangle that points at the time from below.
fn announcement(x: f64, bottom: f64) -> Polygon {
    let points = format!("{x:.1},{:.1} {:.1},{bottom:.1} {:.1},{bottom:.1}", bottom - 8.0, x - 4.0, x + 4.0);
    Polygon::new().set("points", points).set("fill", BROKEN).set("stroke", "#FFFFFF")
}

fn rectangle(x: f64, y: f64, width: f64, height: f64, colour: &str) -> Rectangle {
    let (x, y, width, height) = (tenths(x), tenths(y), tenths(width.max(0.0)), tenths(height));
    Rectangle::new().set("x", x).set("y", y).set("width", width).set("height", height).set("fill", colour)
}

fn vertical(x: f64, from: f64, until: f64, colour: &str) -> Line {
    let (x, from, until) = (tenths(x), tenths(from), tenths(until));
    Line::new().set("x1", x).set("x2", x).set("y1", from).set("y2", until).set("stroke", colour)
}

fn text(x: f64, y: f64, written: impl Into<String>) -> Text {
    Text::new(written).set("x", tenths(x)).set("y", tenths(y))
}

/// Rounds to tenths of a pixel. A finer position would not be visible.
fn tenths(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}
