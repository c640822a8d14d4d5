//! Tables that fit the terminal: cells that are too long continue on the next line.

use std::io::IsTerminal as _;

use anstream::println;
use owo_colors::OwoColorize as _;

/// Width of a table in a terminal of unknown width, in columns.
const DEFAULT_WIDTH: usize = 80;
/// Spaces between two columns.
const GAP: usize = 2;
/// A column is never made narrower than this.
const MIN_COLUMN: usize = 6;

/// Prints rows under headings within the width of the terminal, or one line per row if there is none, so that
/// programs find every value whole. The first `fixed` columns keep their width.
pub(crate) fn fitted_table(headings: &[&str], fixed: usize, rows: impl Iterator<Item = Vec<String>>) {
    print(headings, fixed, rows.map(|row| (row, String::new())));
}

/// Prints a table as [`fitted_table`], with a further line of text below each row.
pub(crate) fn fitted_list(headings: &[&str], fixed: usize, rows: impl Iterator<Item = (Vec<String>, String)>) {
    print(headings, fixed, rows);
}

fn print(headings: &[&str], fixed: usize, rows: impl Iterator<Item = (Vec<String>, String)>) {
    let measured = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    let width = if std::io::stdout().is_terminal() { measured.unwrap_or(DEFAULT_WIDTH) } else { usize::MAX };
    let headings: Vec<String> = headings.iter().map(ToString::to_string).collect();
    let (rows, details): (Vec<Vec<String>>, Vec<String>) =
        std::iter::once((headings, String::new())).chain(rows).unzip();
    let widths = column_widths(&rows, fixed, width);
    for (number, (row, details)) in rows.iter().zip(details).enumerate() {
        for line in lines(row, &widths) {
            if number == 0 { println!("{}", line.bold()) } else { println!("{line}") }
        }
        if !details.is_empty() {
            let indented = pieces(&details, width - GAP).into_iter().map(|line| format!("{:GAP$}{line}", ""));
            indented.for_each(|line| println!("{}", line.dimmed()));
        }
    }
}

/// The width of each column; the widest one behind the `fixed` first columns gives way until the table fits.
fn column_widths(rows: &[Vec<String>], fixed: usize, width: usize) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let mut widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
    let room = width.saturating_sub(GAP * columns.saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        match widths.iter_mut().skip(fixed).max().filter(|width| **width > MIN_COLUMN) {
            Some(widest) => *widest -= 1,
            None => break,
        }
    }
    widths
}

/// Lays a row out in columns; a cell that continues makes it several lines high.
fn lines(row: &[String], widths: &[usize]) -> Vec<String> {
    let cells: Vec<Vec<String>> = row.iter().zip(widths).map(|(cell, width)| pieces(cell, *width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let line = |number: usize| {
        let padded = cells.iter().zip(widths).map(|(pieces, width)| {
            let piece = pieces.get(number).map_or("", String::as_str);
            format!("{piece:<width$}")
        });
        padded.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

/// Splits a cell into pieces of at most `width` characters: after a space, or else a separator, where there is one.
fn pieces(cell: &str, width: usize) -> Vec<String> {
    let mut rest: Vec<char> = cell.chars().collect();
    let mut pieces = Vec::new();
    while rest.len() > width.max(1) {
        let is_break = |c: &char| matches!(c, ':' | '_' | '-' | '.' | '/' | '#' | '@');
        let piece = &rest[..width.max(1)];
        let last = piece.iter().rposition(|c| *c == ' ').or_else(|| piece.iter().rposition(is_break));
        let split = last.map_or(piece.len(), |at| at + 1);
        // A space directly behind the piece belongs to it.
        let split = if rest.get(width) == Some(&' ') { width } else { split };
        let next = rest.split_off(split);
        pieces.push(rest.iter().collect::<String>().trim_end().to_owned());
        rest = next.into_iter().skip_while(|c| *c == ' ').collect();
    }
    pieces.push(rest.into_iter().collect());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(row: &[&str]) -> Vec<String> {
        row.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn long_cells_continue_on_the_next_line_within_the_width() {
        let did = "did:wba:travel.example.com:agents:travel:e1_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789";
        let rows = [cells(&["#", "CALLER", "OUTCOME"]), cells(&["1", did, "refused: scope_not_granted"])];
        let widths = column_widths(&rows, 1, 40);
        let printed = lines(&rows[1], &widths);
        assert!(printed.iter().all(|line| line.chars().count() <= 40), "{printed:?}");
        assert!(printed.len() > 1 && printed[0].starts_with("1  did:wba:"), "{printed:?}");
        let caller: String = pieces(did, widths[1]).concat();
        assert_eq!(caller, did, "nothing is lost");
    }

    #[test]
    fn rows_that_fit_are_printed_on_one_line_each() {
        let rows = [cells(&["#", "TOOL"]), cells(&["1", "add"])];
        assert_eq!(lines(&rows[1], &column_widths(&rows, 0, 80)), ["1  add"]);
    }

    #[test]
    fn cell_is_split_after_a_separator_and_without_spaces_at_the_ends() {
        assert_eq!(pieces("refused: scope_not_granted", 18), ["refused:", "scope_not_granted"]);
        assert_eq!(pieces("operator ordered", 8), ["operator", "ordered"]);
        assert_eq!(pieces("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(pieces("", 3), [""]);
    }
}
