//! The plot of a run.

use std::path::Path;

use plotters::{
    chart::{ChartBuilder, LabelAreaPosition, SeriesLabelPosition},
    coord::Shift,
    drawing::{DrawingArea, IntoDrawingArea},
    element::{PathElement, Rectangle, Text},
    prelude::{IntoLogRange, SVGBackend},
    series::LineSeries,
    style::{BLACK, BLUE, Color, GREEN, IntoFont, RED, RGBColor, WHITE},
};

use super::section::Section;
use crate::Problem;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the sections `throughput` and `scale`, if measured, and each figure that has a target.
pub(crate) fn draw(path: &Path, sections: &[Section]) -> Result<(), Problem> {
    let root = SVGBackend::new(path, (1200, 900)).into_drawing_area();
    root.fill(&WHITE)?;
    let (above, below) = root.split_vertically(400);
    let (left, right) = above.split_horizontally(600);
    if let Some(section) = find(sections, "throughput") {
        lines(&left, "lock + unlock per second, by tasks", section)?;
    }
    if let Some(section) = find(sections, "scale") {
        lines(&right, "median of lock + unlock in us, by nodes", section)?;
    }
    shares_of_targets(&below, sections)?;
    root.present()?;
    Ok(())
}

fn find<'a>(sections: &'a [Section], key: &str) -> Option<&'a Section> {
    sections.iter().find(|section| section.key == key)
}

/// Draws a line for each of the first three rows of a section. The column names begin with a number, which is the x-coordinate.
fn lines(area: &Area<'_>, title: &str, section: &Section) -> Result<(), Problem> {
    let xs: Vec<f64> = section
        .columns
        .iter()
        .filter_map(|column| column.split('_').next().and_then(|number| number.parse().ok()))
        .collect();
    let [first, .., last] = &*xs else { return Ok(()) };
    let most = section.rows.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(15)
        .set_label_area_size(LabelAreaPosition::Left, 60)
        .set_label_area_size(LabelAreaPosition::Bottom, 40)
        .build_cartesian_2d((*first..*last).log_scale(), 0.0..most * 1.1)?;
    chart.configure_mesh().draw()?;
    for ((name, values), colour) in section.rows.iter().zip([BLUE, RED, GREEN]) {
        let points = xs.iter().copied().zip(values.iter().copied());
        let line = LineSeries::new(points, colour.stroke_width(2)).point_size(4);
        let sample = move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2));
        chart.draw_series(line)?.label(name.clone()).legend(sample);
    }
    let mut labels = chart.configure_series_labels();
    labels
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    Ok(())
}

/// Draws a bar for each figure with a target: the figure as a share of the target, unless the share is zero or
/// infinite. The figure meets the target if the share is at most 1.
fn shares_of_targets(area: &Area<'_>, sections: &[Section]) -> Result<(), Problem> {
    let shares: Vec<(String, f64)> = sections
        .iter()
        .flat_map(|section| section.verdicts.iter().map(move |verdict| (section, verdict)))
        .filter_map(|(section, verdict)| {
            Some((format!("{}: {}", section.key, verdict.what), verdict.share_of_target()?))
        })
        .collect();
    let bars = shares.len();
    let most = shares.iter().map(|(_, share)| *share).fold(2.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(
            "each figure as a share of its target (at most 1: met; smaller is better)",
            ("sans-serif", 18),
        )
        .margin(15)
        .set_label_area_size(LabelAreaPosition::Left, 360)
        .set_label_area_size(LabelAreaPosition::Bottom, 30)
        .build_cartesian_2d((0.01..most * 1.5).log_scale(), 0.0..bars.max(1) as f64)?;
    chart.configure_mesh().disable_y_mesh().disable_y_axis().draw()?;
    for (at, (name, share)) in shares.into_iter().enumerate() {
        let from_top = (bars - at) as f64;
        let colour: RGBColor = if share <= 1.0 { GREEN } else { RED };
        let bar = [(0.01, from_top - 0.2), (share.max(0.01), from_top - 0.8)];
        chart.draw_series([Rectangle::new(bar, colour.mix(0.6).filled())])?;
        let (_, y) = chart.backend_coord(&(0.01, from_top - 0.3));
        let left = area.get_base_pixel().0 + 10;
        let top = y - area.get_base_pixel().1;
        area.draw(&Text::new(name, (left, top), ("sans-serif", 13).into_font()))?;
    }
    let line = [(1.0, 0.0), (1.0, bars as f64)];
    chart.draw_series([PathElement::new(line, BLACK.stroke_width(1))])?;
    Ok(())
}
