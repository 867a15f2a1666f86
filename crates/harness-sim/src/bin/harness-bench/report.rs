//! Rows with the measured value, the yardstick, the ratio and the limit.

use std::time::Duration;

#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<[String; 5]>,
}

impl Report {
    /// Adds a cost that may be at most `bar` times the yardstick.
    pub(crate) fn ratio(&mut self, what: &str, measured: Duration, yardstick: Duration, bar: f64) {
        let ratio = measured.as_secs_f64() / yardstick.as_secs_f64().max(1e-9);
        let verdict = if ratio <= bar { "ok" } else { "OVER" };
        self.rows.push([
            what.to_owned(),
            time(measured),
            time(yardstick),
            format!("{ratio:.2} (bar {bar})"),
            verdict.to_owned(),
        ]);
    }

    /// Adds a cost that may be at most `bar`.
    pub(crate) fn absolute(&mut self, what: &str, measured: Duration, bar: Duration) {
        let verdict = if measured <= bar { "ok" } else { "OVER" };
        let bar = format!("(bar {})", time(bar));
        self.rows.push([what.to_owned(), time(measured), String::new(), bar, verdict.to_owned()]);
    }

    /// Adds an amount of memory that may be at most `bar`.
    pub(crate) fn bytes(&mut self, what: &str, measured: u64, bar: u64) {
        let verdict = if measured <= bar { "ok" } else { "OVER" };
        let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / 1048576.0);
        let (measured, bar) = (mebibytes(measured), format!("(bar {})", mebibytes(bar)));
        self.rows.push([what.to_owned(), measured, String::new(), bar, verdict.to_owned()]);
    }

    /// Adds a count, optionally with a limit.
    pub(crate) fn count(&mut self, what: &str, measured: usize, bar: Option<usize>) {
        let verdict = match bar {
            Some(bar) if measured > bar => "OVER",
            Some(_) => "ok",
            None => "",
        };
        let bar = bar.map(|bar| format!("(bar {bar})")).unwrap_or_default();
        let measured = measured.to_string();
        self.rows.push([what.to_owned(), measured, String::new(), bar, verdict.to_owned()]);
    }

    /// Adds a figure without a limit.
    pub(crate) fn note(&mut self, what: &str, measured: Duration) {
        self.rows.push([
            what.to_owned(),
            time(measured),
            String::new(),
            String::new(),
            String::new(),
        ]);
    }

    pub(crate) fn print(&self) {
        let head = ["what", "measured", "yardstick", "ratio", ""].map(str::to_owned);
        let rows: Vec<&[String; 5]> = std::iter::once(&head).chain(&self.rows).collect();
        let width = |n: usize| rows.iter().map(|r| r[n].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2, 3, 4].map(width);
        for row in rows {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
    }
}

fn time(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    if micros < 1000.0 { format!("{micros:.1} µs") } else { format!("{:.2} ms", micros / 1000.0) }
}

/// Returns the median of several measurements.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
