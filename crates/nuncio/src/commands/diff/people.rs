//! A verdict as text: what broke, where, with which example call, and which permissions need new consent.

use anstream::println;
use nuncio_judge::NonBreakingChangeNotice;
use owo_colors::OwoColorize as _;
use serde_json::Value;

use super::super::chat::clean::{clean, columns};
use super::super::consumer::wrapped;
use super::{JudgedDiff, rule_texts};

/// Width of an output line, including its indent.
const WIDTH: usize = 80;

pub(super) fn print(judged: &JudgedDiff, old: &str, new: &str) {
    let verdict = &judged.verdict;
    let outcome =
        if verdict.breaking { "breaking".red().bold().to_string() } else { "compatible".green().bold().to_string() };
    println!("{outcome}  {} → {}", clean(old), clean(new));
    if !verdict.scopes_requiring_reauth.is_empty() {
        println!("{}", "needs new consent:".bold());
        verdict.scopes_requiring_reauth.iter().for_each(|scope| println!("  {}", cut(&clean(scope), WIDTH - 2)));
    }
    for (finding, reason) in verdict.findings.iter().zip(&judged.reasons) {
        println!();
        head(finding.rule.as_str(), finding.tool.as_deref(), finding.scope.as_deref(), true);
        if let Some(reason) = reason {
            println!("{}", wrapped(reason, "  "));
        }
        let takes = if finding.rule.as_str() == "input_widened" { "takes" } else { "refuses" };
        body(&finding.pointer, [("was", &finding.old), ("now", &finding.new), (takes, &finding.witness)]);
    }
    if !verdict.notices.is_empty() {
        println!();
        println!("{}", "also changed:".bold());
        verdict.notices.iter().for_each(notice);
    }
}

fn head(rule: &str, tool: Option<&str>, scope: Option<&str>, breaks: bool) {
    let mark = if breaks { "✗".red().to_string() } else { "·".yellow().to_string() };
    let about: Vec<_> = [tool, scope].into_iter().flatten().map(clean).collect();
    let about = cut(&about.join("  "), WIDTH - 4 - rule.len());
    println!("{}", format!("{mark} {}  {}", rule.bold(), about.cyan()).trim_end());
    if let Some(words) = rule_texts::of(rule) {
        println!("  {words}");
    }
}

/// Prints the place of a change, its old and new value, and an example call.
fn body(pointer: &str, values: [(&str, &Option<Value>); 3]) {
    line("at", if pointer.is_empty() { "the whole" } else { pointer });
    for (label, value) in values {
        if let Some(value) = value {
            line(label, &value.to_string());
        }
    }
}

fn notice(notice: &NonBreakingChangeNotice) {
    head(notice.rule.as_str(), notice.tool.as_deref(), notice.scope.as_deref(), false);
    body(&notice.pointer, [("was", &notice.old), ("now", &notice.new), ("takes", &notice.witness)]);
}

/// A label and its text, cut to the line width.
fn line(label: &str, text: &str) {
    let begin = format!("    {label:<8}");
    let width = WIDTH - begin.len();
    println!("{}{}", begin.dimmed(), cut(&clean(text), width));
}

/// Cuts a text to the available columns, with an ellipsis.
fn cut(text: &str, width: usize) -> String {
    if text.chars().map(columns).sum::<usize>() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = text.chars().take_while(|character| {
        let takes = columns(*character);
        let fits = takes <= left;
        left = left.saturating_sub(takes);
        fits
    });
    fits.chain(['…']).collect()
}
