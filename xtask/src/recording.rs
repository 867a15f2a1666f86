//! `docs/demo.svg`: the recording of `harness demo` in `docs/demo.txt`, as a picture whose lines
//! light up one after the other. A test of the program compares the text with the demo.

use std::fmt::Write as _;

const LINE_HEIGHT: usize = 19;
const CHARACTER_WIDTH: f64 = 7.83;
const MARGIN: usize = 18;
/// Seconds between two lines. The whole recording is shown once, and then stays.
const PACE: f64 = 0.2;

pub(crate) fn svg(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = (columns as f64 * CHARACTER_WIDTH) as usize + 2 * MARGIN;
    let height = lines.len() * LINE_HEIGHT + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"A recording of harness demo\">\n\
         <style>\n\
         text {{ font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d6deeb; \
         white-space: pre; animation: appear 0.01s both }}\n\
         .command {{ fill: #ffffff; font-weight: bold }} .remark {{ fill: #8fa3bf }}\n\
         .good {{ fill: #7fdb9a }} .bad {{ fill: #ff9a8b }} .notice {{ fill: #ffd479 }}\n\
         @keyframes appear {{ from {{ opacity: 0.25 }} to {{ opacity: 1 }} }}\n\
         @media (prefers-reduced-motion: reduce) {{ text {{ animation: none }} }}\n\
         </style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#16202e\"/>\n"
    );
    for (n, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let y = MARGIN + n * LINE_HEIGHT + LINE_HEIGHT * 3 / 4;
        let (class, delay) = (class(line), n as f64 * PACE);
        _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{y}\"{class} style=\"animation-delay: {delay:.2}s\">{}</text>",
            escaped(line)
        );
    }
    svg + "</svg>\n"
}

fn class(line: &str) -> &'static str {
    let first = line.split([' ', ':']).next().unwrap_or_default();
    match first {
        "$" => " class=\"command\"",
        "#" => " class=\"remark\"",
        "Completed" => " class=\"good\"",
        "ERROR" => " class=\"bad\"",
        "ROLLBACK" | "RECOVERY" | "finished" => " class=\"notice\"",
        _ => "",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
