//! Charts as SVG: a curve over time, bars, and spans on lanes.

use harness_core::Timestamp;
use maud::{Markup, html};

use super::parts::Tone;
use crate::local_time;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 26.0;
const LANE: f64 = 28.0;

/// The time axis of a chart.
#[derive(Debug, Clone, Copy)]
struct Axis {
    from: i64,
    to: i64,
}

impl Axis {
    fn over(times: impl Iterator<Item = Timestamp>) -> Option<Self> {
        let seconds: Vec<i64> = times.map(|time| time.seconds()).collect();
        let (from, to) = (*seconds.iter().min()?, *seconds.iter().max()?);
        Some(Self { from, to: to.max(from + 60) })
    }

    fn x(self, time: Timestamp) -> f64 {
        let part = (time.seconds() - self.from) as f64 / (self.to - self.from) as f64;
        LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    /// Marks a few moments below the chart.
    fn marks(self, y: f64) -> Markup {
        let now = Timestamp::from_seconds(self.to);
        let is_short = self.to - self.from < 600;
        let moments =
            (0..=4).map(|n| Timestamp::from_seconds(self.from + (self.to - self.from) * n / 4));
        html! {
            @for (n, time) in moments.enumerate() {
                @let anchor = match n { 0 => "start", 4 => "end", _ => "middle" };
                text x=(short(self.x(time))) y=(short(y)) text-anchor=(anchor) {
                    @if is_short { (local_time::clock(time)) } @else { (local_time::moment(time, now)) }
                }
            }
        }
    }
}

fn short(value: f64) -> String {
    format!("{value:.1}")
}

/// Draws a sum that grows at each point, against a limit.
pub(super) fn curve(
    points: &[(Timestamp, f64)],
    limit: Option<f64>,
    label: impl Fn(f64) -> String,
) -> Markup {
    let Some(axis) = Axis::over(points.iter().map(|point| point.0)) else { return html! {} };
    let highest =
        points.iter().map(|point| point.1).fold(limit.unwrap_or(0.0), f64::max).max(1e-9) * 1.06;
    let y = |value: f64| TOP + (1.0 - value / highest) * (HEIGHT - TOP - BOTTOM);
    let mut line = String::new();
    for (n, (time, value)) in points.iter().enumerate() {
        let (x, y) = (axis.x(*time), y(*value));
        line += &if n == 0 { format!("M{x:.1} {y:.1}") } else { format!(" H{x:.1} V{y:.1}") };
    }
    let (first, last) = (axis.x(points[0].0), axis.x(points[points.len() - 1].0));
    let area = format!("{line} L{last:.1} {:.1} L{first:.1} {:.1} Z", y(0.0), y(0.0));
    html! {
        svg .fit viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label="Spending over time" {
            @for n in 0..=2 {
                @let value = highest / 1.06 * f64::from(n) / 2.0;
                path .axis d=(format!("M{LEFT} {0:.1} H{1:.1}", y(value), WIDTH - RIGHT)) {}
                text x=(short(LEFT - 8.0)) y=(short(y(value) + 4.0)) text-anchor="end" { (label(value)) }
            }
            path .area d=(area) {}
            path .curve d=(line) {}
            @if let Some(limit) = limit {
                path .limit d=(format!("M{LEFT} {0:.1} H{1:.1}", y(limit), WIDTH - RIGHT)) {}
                text x=(short(WIDTH - RIGHT)) y=(short(y(limit) - 5.0)) text-anchor="end" {
                    "budget " (label(limit))
                }
            }
            (axis.marks(HEIGHT - 6.0))
        }
    }
}

/// A bar with its name and its value.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) text: String,
}

pub(super) fn bars(all: &[Bar]) -> Markup {
    let most = all.iter().map(|bar| bar.value).fold(0.0, f64::max).max(1e-9);
    html! {
        ul .bars {
            @for bar in all {
                li {
                    div .line {
                        span .grow .title { (crate::tool_line::cut(&bar.name, 40)) }
                        span .quiet { (bar.text) }
                    }
                    (bar_of(bar.value / most, "f-work"))
                }
            }
        }
    }
}

/// A piece of work on a lane.
pub(super) struct Work {
    pub(super) lane: String,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) tone: Tone,
    pub(super) task: String,
    pub(super) text: String,
}

/// Draws work over time, one lane for each worker.
pub(super) fn lanes(all: &[Work]) -> Markup {
    let times = all.iter().flat_map(|work| [work.from, work.to]);
    let Some(axis) = Axis::over(times) else { return html! {} };
    let mut names: Vec<&str> = all.iter().map(|work| work.lane.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let lane = |name: &str| names.iter().position(|other| *other == name).unwrap_or(0);
    // A lane has a name above it, so that the time has the whole width.
    let pitch = LANE + 14.0;
    let height = names.len() as f64 * pitch + BOTTOM;
    html! {
        svg .fit viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label="Attempts by worker" {
            @for (n, name) in names.iter().enumerate() {
                @let y = n as f64 * pitch + 11.0;
                text .strong x=(LEFT) y=(short(y)) { (crate::tool_line::cut(name, 60)) }
                rect .f-idle x=(LEFT) y=(short(y + 5.0)) width=(short(WIDTH - LEFT - RIGHT)) height="18" rx="4" opacity=".35" {}
            }
            @for work in all {
                @let (x, end) = (axis.x(work.from), axis.x(work.to));
                @let y = lane(&work.lane) as f64 * pitch + 16.0;
                a href=(format!("task/{}", work.task)) {
                    rect class=(format!("f-{}", if work.tone == Tone::Plain { "warn" } else { work.tone.class() }))
                        x=(short(x)) y=(short(y)) width=(short((end - x).max(3.0))) height="18" rx="4" {
                        title { (work.text) }
                    }
                }
            }
            (axis.marks(height - 6.0))
        }
    }
}

/// A part of a bar: its share and its colour.
pub(super) fn shares(parts: &[(usize, &str)]) -> Markup {
    let all: usize = parts.iter().map(|part| part.0).sum();
    let wide = |count: usize| count as f64 / all.max(1) as f64 * 1000.0;
    let bars = parts.iter().scan(0, |before, (count, class)| {
        let at = wide(*before);
        *before += count;
        Some((at, wide(*count), class))
    });
    html! {
        svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
            @for (at, width, class) in bars {
                rect class=(class) x=(short(at)) y="0" width=(short(width)) height="10" {}
            }
        }
    }
}

/// A line that is full at the limit, where it warns.
pub(super) fn gauge(value: f64, limit: f64) -> Markup {
    let is_near = value >= 0.9 * limit;
    line(value, limit, if is_near { "f-bad" } else { "f-work" })
}

/// A line that is full at the end.
pub(super) fn steps(done: f64, all: f64) -> Markup {
    line(done, all, "f-work")
}

fn line(value: f64, limit: f64, class: &str) -> Markup {
    let part = (value / limit.max(1e-9)).clamp(0.0, 1.0);
    html! { div role="img" aria-label=(format!("{:.0} % used", part * 100.0)) { (bar_of(part, class)) } }
}

/// A bar of this part of the width.
fn bar_of(part: f64, class: &str) -> Markup {
    html! {
        svg .gauge viewBox="0 0 100 5" preserveAspectRatio="none" aria-hidden="true" {
            rect .f-idle x="0" y="0" width="100" height="5" {}
            rect class=(class) x="0" y="0" width=(short(part.clamp(0.0, 1.0) * 100.0)) height="5" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_hold_any_values() {
        let at = Timestamp::from_seconds;
        assert_eq!(curve(&[], None, |v| v.to_string()).into_string(), "");
        for points in [
            vec![(at(5), 0.0)],
            vec![(at(5), 1.0), (at(5), 2.0)],
            vec![(at(0), 0.5), (at(9_000), 4.0)],
        ] {
            let text = curve(&points, Some(3.0), |v| format!("{v:.1}")).into_string();
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
        assert!(!shares(&[(0, "x")]).into_string().contains("NaN"));
        assert!(!gauge(1.0, 0.0).into_string().contains("NaN"));
        let work = Work {
            lane: "w".into(),
            from: at(9),
            to: at(3),
            tone: Tone::Good,
            task: "a".into(),
            text: "a".into(),
        };
        assert!(!lanes(&[work]).into_string().contains("width=\"-"));
    }
}
