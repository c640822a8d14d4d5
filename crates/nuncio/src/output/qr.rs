//! QR codes in the terminal.

use owo_colors::OwoColorize as _;
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};

/// The text as a QR code, two modules per character cell; `None` if the text is too long for one.
///
/// The light modules are drawn, so that the code is right on a dark terminal even without colours.
pub(crate) fn qr_code(text: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let drawn = code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build();
    let lines = drawn.lines().map(|line| line.bright_white().on_black().to_string());
    Some(lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qr_code_of_an_invite_link_fits_into_56_columns_and_28_lines() {
        let link = format!("https://agents.example.com/join#inv_{}.{}", "a".repeat(32), "b".repeat(43));
        let drawn = anstream::adapter::strip_str(&qr_code(&link).unwrap()).to_string();
        let lines: Vec<_> = drawn.lines().collect();
        assert!(lines.len() <= 28 && lines.iter().all(|line| line.chars().count() <= 56), "{drawn}");
        assert!(lines[0].chars().all(|module| module == '█'), "the margin is light: {drawn}");
        assert!(qr_code(&"a".repeat(5000)).is_none());
    }
}
