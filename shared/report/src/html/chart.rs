//! Line charts as inline SVG: few, plain, and readable without colour.
//!
//! A line is told from another by its dash and its marker as well as by its
//! colour, values are described in words for who can't see them, and colours
//! come from the page's style, so that one drawing serves light, dark and
//! print. There is no interaction: exact values are in the tables.

use maud::{Markup, html};

use crate::words::number;

/// Size of a drawing in its own units, which are CSS pixels at full width.
const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 290.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 44.0;

/// Lines that look different from one another; a ninth repeats the first.
const LOOKS: usize = 8;

/// One chart.
pub(super) struct Chart {
    /// Unique on the page; part of the ids within the drawing.
    pub(super) id: String,
    pub(super) title: String,
    /// What else must be said under the title; may be empty.
    pub(super) remark: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
}

pub(super) struct Axis {
    /// What is on it, with its unit.
    pub(super) label: String,
    pub(super) scale: Scale,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// From 0.
    Linear,
    /// From 0 to 100%.
    Share,
    /// Each doubling as wide as the one before.
    Log,
    /// Percentiles as -log10(1 - q): each nine as wide as the one before.
    Percentile,
}

pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<Point>,
    /// Whether single values are marked; off where there are many.
    pub(super) markers: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The confidence interval around y.
    pub(super) band: Option<(f64, f64)>,
    /// It can be trusted.
    pub(super) valid: bool,
}

impl Chart {
    /// The chart with its title and legend; nothing when there is nothing on it.
    pub(super) fn render(&self) -> Markup {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        if points().next().is_none() {
            return html! {};
        }
        let x = Ruler::new(
            self.x.scale,
            points().map(|point| point.x),
            LEFT,
            WIDTH - RIGHT,
        );
        // A very wide interval must not flatten the lines.
        let top = points().map(|point| point.y).fold(0.0, f64::max);
        let tops =
            points().map(|point| point.band.map_or(point.y, |(_, high)| high.min(2.0 * top)));
        let y = Ruler::new(
            self.y.scale,
            points().map(|point| point.y).chain(tops),
            HEIGHT - BOTTOM,
            TOP,
        );
        let (title, desc, clip) = (
            format!("{}-title", self.id),
            format!("{}-desc", self.id),
            format!("{}-clip", self.id),
        );
        html! {
            figure.chart {
                figcaption {
                    (self.title)
                    @if !self.remark.is_empty() { br; small { (self.remark) } }
                }
                svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img"
                    aria-labelledby=(format!("{title} {desc}")) {
                    title id=(title) { (self.title) }
                    desc id=(desc) { (self.describe()) }
                    clipPath id=(clip) {
                        rect x=(LEFT) y=(TOP - 6.0) width=(WIDTH - LEFT - RIGHT + 6.0)
                            height=(HEIGHT - TOP - BOTTOM + 12.0) {}
                    }
                    (self.axes(&x, &y))
                    g clip-path=(format!("url(#{clip})")) {
                        @for (index, line) in self.lines.iter().enumerate() {
                            (band(line, index, &x, &y))
                        }
                        @for (index, line) in self.lines.iter().enumerate() {
                            (stroke(line, index, &x, &y))
                        }
                    }
                }
                @let invalid = points().any(|point| !point.valid);
                @if self.lines.len() > 1 || invalid {
                    ul.legend {
                        @for (index, line) in self.lines.iter().enumerate() {
                            li { (swatch(index, line.markers)) (line.name) }
                        }
                        @if invalid {
                            li {
                                svg.swatch viewBox="0 0 32 12" aria-hidden="true" { (cross(16.0, 6.0)) }
                                "invalid"
                            }
                        }
                    }
                }
            }
        }
    }

    fn axes(&self, x: &Ruler, y: &Ruler) -> Markup {
        let bottom = HEIGHT - BOTTOM;
        html! {
            g.axes {
                @for (at, label) in y.ticks() {
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(px(at)) y2=(px(at)) {}
                    text x=(LEFT - 6.0) y=(px(at + 4.0)) text-anchor="end" { (label) }
                }
                @for (at, label) in x.ticks() {
                    line.tick x1=(px(at)) x2=(px(at)) y1=(bottom) y2=(bottom + 4.0) {}
                    text x=(px(at)) y=(bottom + 17.0) text-anchor="middle" { (label) }
                }
                line.base x1=(LEFT) x2=(WIDTH - RIGHT) y1=(bottom) y2=(bottom) {}
                text.label x=(px((LEFT + WIDTH - RIGHT) / 2.0)) y=(HEIGHT - 6.0)
                    text-anchor="middle" { (self.x.label) }
                text.label x="2" y="12" { (self.y.label) }
            }
        }
    }

    /// The chart in words.
    fn describe(&self) -> String {
        let mut words = format!("{} against {}.", self.y.label, self.x.label);
        for line in &self.lines {
            let points: Vec<String> = thinned(&line.points)
                .iter()
                .map(|point| {
                    let mark = if point.valid { "" } else { " (invalid)" };
                    format!("{}{mark} at {}", number(point.y), plain(point.x))
                })
                .collect();
            words.push_str(&format!(" {}: {}.", line.name, points.join(", ")));
        }
        words
    }
}

/// At most twelve points, the first and the last among them.
fn thinned(points: &[Point]) -> Vec<Point> {
    const MOST: usize = 12;
    if points.len() <= MOST {
        return points.to_vec();
    }
    let last = points.len() - 1;
    (0..MOST).map(|n| points[n * last / (MOST - 1)]).collect()
}

fn band(line: &Line, index: usize, x: &Ruler, y: &Ruler) -> Markup {
    let ends: Vec<(f64, f64, f64)> = line
        .points
        .iter()
        .map(|point| {
            let (low, high) = point.band.unwrap_or((point.y, point.y));
            (x.at(point.x), y.at(low), y.at(high))
        })
        .collect();
    if !line.points.iter().any(|point| point.band.is_some()) {
        return html! {};
    }
    let class = format!("band c{}", index % LOOKS);
    if let [(x, low, high)] = ends[..] {
        return html! {
            line class=(class) x1=(px(x)) x2=(px(x)) y1=(px(low)) y2=(px(high)) {}
        };
    }
    let upper = ends
        .iter()
        .map(|(x, _, high)| format!("{},{}", px(*x), px(*high)));
    let lower = ends
        .iter()
        .rev()
        .map(|(x, low, _)| format!("{},{}", px(*x), px(*low)));
    let outline: Vec<String> = upper.chain(lower).collect();
    html! { polygon class=(class) points=(outline.join(" ")) {} }
}

fn stroke(line: &Line, index: usize, x: &Ruler, y: &Ruler) -> Markup {
    let places: Vec<(f64, f64)> = line
        .points
        .iter()
        .map(|point| (x.at(point.x), y.at(point.y)))
        .collect();
    let path: Vec<String> = places
        .iter()
        .map(|(x, y)| format!("{},{}", px(*x), px(*y)))
        .collect();
    html! {
        g class=(format!("c{}", index % LOOKS)) {
            polyline class=(format!("line d{}", index % LOOKS)) points=(path.join(" ")) {}
            @if line.markers {
                @for (x, y) in &places { (marker(index, *x, *y)) }
            }
            @for ((x, y), point) in places.iter().zip(&line.points) {
                @if !point.valid { (cross(*x, *y)) }
            }
        }
    }
}

/// What is put over a value that can't be trusted.
fn cross(x: f64, y: f64) -> Markup {
    let (left, right) = (px(x - 5.0), px(x + 5.0));
    let (top, bottom) = (px(y - 5.0), px(y + 5.0));
    html! {
        path.invalid d=(format!("M{left},{top} L{right},{bottom} M{left},{bottom} L{right},{top}")) {}
    }
}

/// A shape per line.
fn marker(index: usize, x: f64, y: f64) -> Markup {
    let at = |points: &[(f64, f64)]| -> String {
        let moved = points
            .iter()
            .map(|(dx, dy)| format!("{},{}", px(x + dx), px(y + dy)));
        moved.collect::<Vec<_>>().join(" ")
    };
    html! {
        @match index % LOOKS {
            0 => { circle.mark cx=(px(x)) cy=(px(y)) r="3.5" {} }
            1 => { rect.mark x=(px(x - 3.2)) y=(px(y - 3.2)) width="6.4" height="6.4" {} }
            2 => { polygon.mark points=(at(&[(0.0, -4.4), (4.2, 3.2), (-4.2, 3.2)])) {} }
            3 => { polygon.mark points=(at(&[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)])) {} }
            4 => { circle.hollow cx=(px(x)) cy=(px(y)) r="3.5" {} }
            5 => { rect.hollow x=(px(x - 3.2)) y=(px(y - 3.2)) width="6.4" height="6.4" {} }
            6 => { polygon.hollow points=(at(&[(0.0, 4.4), (4.2, -3.2), (-4.2, -3.2)])) {} }
            _ => { polygon.hollow points=(at(&[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)])) {} }
        }
    }
}

/// A piece of a line, for the legend.
fn swatch(index: usize, marked: bool) -> Markup {
    html! {
        svg.swatch viewBox="0 0 32 12" aria-hidden="true" {
            g class=(format!("c{}", index % LOOKS)) {
                polyline class=(format!("line d{}", index % LOOKS)) points="1,6 31,6" {}
                @if marked { (marker(index, 16.0, 6.0)) }
            }
        }
    }
}

/// Maps values to places along one axis, and knows where its ticks are.
struct Ruler {
    scale: Scale,
    /// Ends in scaled terms.
    low: f64,
    high: f64,
    /// Places of the ends.
    from: f64,
    to: f64,
    /// The values themselves, where they are few: the best ticks there are.
    values: Vec<f64>,
}

impl Ruler {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Ruler {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let first = values.first().copied().unwrap_or(0.0);
        let last = values.last().copied().unwrap_or(1.0);
        let (low, high) = match scale {
            Scale::Linear => {
                let step = nice_step(last);
                (0.0, (last / step).ceil().max(1.0) * step)
            }
            Scale::Share => (0.0, 100.0),
            Scale::Log => (scaled(scale, first), scaled(scale, last)),
            Scale::Percentile => (0.0, scaled(scale, last)),
        };
        // A single value stands in the middle.
        let (low, high) = if high > low {
            (low, high)
        } else {
            (low - 0.5, high + 0.5)
        };
        Ruler {
            scale,
            low,
            high,
            from,
            to,
            values,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (scaled(self.scale, value) - self.low) / (self.high - self.low);
        // Far outside is as good as outside, and keeps the drawing finite.
        self.from + share.clamp(-1.0, 2.0) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let ticks: Vec<f64> = match self.scale {
            Scale::Linear | Scale::Share => {
                let step = nice_step(self.high);
                let count = (self.high / step).round() as usize;
                (0..=count).map(|n| n as f64 * step).collect()
            }
            Scale::Log if self.values.len() <= 8 && self.spread_out() => self.values.clone(),
            Scale::Log => log_ticks(self.low.exp2(), self.high.exp2()),
            Scale::Percentile => vec![0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999],
        };
        let inside = ticks.into_iter().filter(|tick| {
            let place = scaled(self.scale, *tick);
            place >= self.low - 1e-9 && place <= self.high + 1e-9
        });
        inside.map(|tick| (self.at(tick), plain(tick))).collect()
    }

    /// Whether a label at every value would be legible.
    fn spread_out(&self) -> bool {
        let places: Vec<f64> = self.values.iter().map(|value| self.at(*value)).collect();
        places.windows(2).all(|two| (two[1] - two[0]).abs() >= 22.0)
    }
}

fn scaled(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Linear | Scale::Share => value,
        // A latency below a microsecond or a count below one is not drawn.
        Scale::Log => value.max(1e-6).log2(),
        Scale::Percentile => -(1.0 - value / 100.0).max(1e-9).log10(),
    }
}

/// Ones, twos and fives of each decade; even steps where the values are too
/// close together for those.
fn log_ticks(first: f64, last: f64) -> Vec<f64> {
    let decades = (-6..12).map(|power| 10_f64.powi(power));
    let ticks = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * decade));
    let ticks: Vec<f64> = ticks.filter(|tick| (first..=last).contains(tick)).collect();
    if ticks.len() > 2 {
        return ticks;
    }
    let step = nice_step(last - first);
    let from = (first / step).ceil() as u64;
    let to = (last / step).floor() as u64;
    (from..=to).map(|n| n as f64 * step).collect()
}

/// A step of 1, 2 or 5 times a power of ten that makes four to ten of `last`.
fn nice_step(last: f64) -> f64 {
    let rough = last.max(1e-9) / 5.0;
    let decade = 10_f64.powf(rough.log10().floor());
    let digit = rough / decade;
    // Rounding up at the geometric middle between the digits.
    let nice = if digit < 1.5 {
        1.0
    } else if digit < 3.5 {
        2.0
    } else if digit < 7.5 {
        5.0
    } else {
        10.0
    };
    nice * decade
}

/// A tick's label: no digit more than needed.
fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// A place with a tenth of a unit.
fn px(place: f64) -> String {
    let text = format!("{place:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ruler: &Ruler) -> Vec<String> {
        ruler.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let ruler = Ruler::new(Scale::Linear, [5.4, 6.8].into_iter(), 0.0, 100.0);
        assert_eq!(labels(&ruler), ["0", "1", "2", "3", "4", "5", "6", "7"]);
        let ruler = Ruler::new(Scale::Linear, [0.0].into_iter(), 0.0, 100.0);
        assert!(ruler.at(0.0).is_finite());
        let ruler = Ruler::new(Scale::Log, [1.0, 2.0, 4.0, 64.0].into_iter(), 0.0, 200.0);
        assert_eq!(labels(&ruler), ["1", "2", "4", "64"]);
        assert_eq!(
            (ruler.at(1.0), ruler.at(8.0), ruler.at(64.0)),
            (0.0, 100.0, 200.0)
        );
        let ruler = Ruler::new(Scale::Log, (0..9).map(|n| 181.0 + f64::from(n)), 0.0, 100.0);
        assert_eq!(labels(&ruler), ["182", "184", "186", "188"]);
        let ruler = Ruler::new(Scale::Share, [13.2].into_iter(), 0.0, 100.0);
        assert_eq!(labels(&ruler), ["0", "20", "40", "60", "80", "100"]);
        let ruler = Ruler::new(Scale::Percentile, [0.0, 99.0].into_iter(), 0.0, 100.0);
        assert_eq!(labels(&ruler), ["0", "50", "90", "99"]);
        assert_eq!(ruler.at(90.0).round(), 50.0);
    }

    #[test]
    fn one_value_is_drawn_in_the_middle() {
        let ruler = Ruler::new(Scale::Log, [8.0].into_iter(), 0.0, 100.0);
        assert_eq!(ruler.at(8.0), 50.0);
        assert_eq!(labels(&ruler), ["8"]);
    }

    #[test]
    fn what_is_on_it_is_escaped_and_described() {
        let point = |x, y| Point {
            x,
            y,
            band: Some((y - 1.0, y + 1.0)),
            valid: true,
        };
        let chart = Chart {
            id: "c".into(),
            title: "a <b> & c".into(),
            remark: String::new(),
            x: Axis {
                label: "writers".into(),
                scale: Scale::Log,
            },
            y: Axis {
                label: "appends/s".into(),
                scale: Scale::Linear,
            },
            lines: vec![Line {
                name: "<script>".into(),
                points: vec![point(1.0, 5.5), point(64.0, 6.8)],
                markers: true,
            }],
        };
        let svg = chart.render().into_string();
        assert!(!svg.contains("<script>") && !svg.contains("<b>"));
        assert!(svg.contains("appends/s against writers. &lt;script&gt;: 5.50 at 1, 6.80 at 64."));
        assert!(svg.contains("role=\"img\"") && svg.contains("<polygon class=\"band c0\""));
    }

    #[test]
    fn an_empty_chart_is_none() {
        let chart = Chart {
            id: "c".into(),
            title: "t".into(),
            remark: String::new(),
            x: Axis {
                label: "x".into(),
                scale: Scale::Linear,
            },
            y: Axis {
                label: "y".into(),
                scale: Scale::Linear,
            },
            lines: vec![],
        };
        assert_eq!(chart.render().into_string(), "");
    }
}
