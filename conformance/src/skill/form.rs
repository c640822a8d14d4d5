//! Checks of single fields and responses, by the tables of the Skill Sharing specification.

use serde_json::Value;

use crate::verdict::{CheckStopReason, CheckVerdict, ensure, fail, short};

pub(super) const CAPABILITIES: [&str; 4] = ["plugin", "api", "knowledge", "task"];
pub(super) const ACCESS: [&str; 3] = ["public", "restricted", "private"];
pub(super) const AUTH: [&str; 4] = ["api_key", "oauth2", "custom", "none"];
pub(super) const STATUS: [&str; 5] = ["accepted", "running", "completed", "failed", "timeout"];
pub(super) const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

/// The field `name`; fails unless it is a non-empty string.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, CheckStopReason> {
    value[name].as_str().filter(|text| !text.is_empty()).ok_or_else(|| fail(expected(value, name, "a text")))
}

/// Fails unless the field `name` is one of `words`.
pub(super) fn one_of_words(value: &Value, name: &str, words: &[&str]) -> CheckVerdict {
    let found = text(value, name)?;
    ensure(words.contains(&found), || expected(value, name, &words.join(", ")))
}

/// Fails if the field `name` is present and not a non-empty string.
pub(super) fn optional_text(value: &Value, name: &str) -> CheckVerdict {
    match value.get(name) {
        None => Ok(()),
        Some(_) => text(value, name).map(drop),
    }
}

/// Fails if the field `name` is present and not a non-negative number.
pub(super) fn optional_number(value: &Value, name: &str) -> CheckVerdict {
    let fits = value.get(name).is_none_or(|number| number.as_f64().is_some_and(|number| number >= 0.0));
    ensure(fits, || expected(value, name, "a number"))
}

/// Fails unless the field `name` is a version MAJOR.MINOR.PATCH (§6.1).
pub(super) fn version(value: &Value, name: &str) -> CheckVerdict {
    let found = text(value, name)?;
    let parts: Vec<&str> = found.split('.').collect();
    let number = |part: &&str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && (*part == "0" || !part.starts_with('0'))
    };
    ensure(parts.len() == 3 && parts.iter().all(number), || expected(value, name, "MAJOR.MINOR.PATCH"))
}

/// Fails unless the field `name` is an absolute http or https URL; it may contain `{execution_id}`.
pub(super) fn url(value: &Value, name: &str) -> CheckVerdict {
    let found = text(value, name)?.replace("{execution_id}", "x");
    let parsed = reqwest::Url::parse(&found);
    ensure(parsed.is_ok_and(|url| matches!(url.scheme(), "http" | "https")), || {
        expected(value, name, "an absolute URL")
    })
}

/// The field `name`; fails unless it is an ISO 8601 time in UTC, so that times can be compared as texts.
pub(super) fn time<'a>(value: &'a Value, name: &str) -> Result<&'a str, CheckStopReason> {
    let found = text(value, name)?;
    let form: String = found.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let fits = form.strip_prefix("0000-00-00T00:00:00").is_some_and(|rest| {
        let zone = rest.trim_start_matches(['.', '0']);
        matches!(zone, "Z") || rest.ends_with("+00:00") || rest.ends_with("-00:00")
    });
    ensure(fits, || expected(value, name, "a time in ISO 8601"))?;
    Ok(found)
}

/// Checks the fields of an invocation response (§5.4).
pub(super) fn response(execution: &Value) -> CheckVerdict {
    text(execution, "execution_id")?;
    text(execution, "skill_id")?;
    one_of_words(execution, "status", &STATUS)?;
    let status = execution["status"].as_str().unwrap_or_default();
    let (output, error) = (execution.get("output"), execution.get("error"));
    ensure(output.is_some() == (status == "completed"), || expected(execution, "output", "it exactly when completed"))?;
    let unhappy = matches!(status, "failed" | "timeout");
    ensure(error.is_some() == unhappy, || expected(execution, "error", "it exactly when failed or timeout"))?;
    if let Some(error) = error {
        text(error, "code")?;
        text(error, "message")?;
        if let Some(retry) = error.get("retry") {
            ensure(retry["suggested_delay_ms"].is_number() && retry["max_attempts"].is_number(), || {
                expected(error, "retry", "both numbers")
            })?;
        }
    }
    timestamps(execution, output.is_some() || unhappy)
}

/// Checks `created_at` ≤ `completed_at` ≤ `updated_at`; `completed_at` is present in final states only.
fn timestamps(execution: &Value, over: bool) -> CheckVerdict {
    let times = &execution["timestamps"];
    let (created, updated) = (time(times, "created_at")?, time(times, "updated_at")?);
    ensure(created <= updated, || format!("expected times in order, got {times}"))?;
    ensure(times.get("completed_at").is_some() == over, || expected(times, "completed_at", "it exactly at the end"))?;
    if over {
        let completed = time(times, "completed_at")?;
        ensure(created <= completed && completed <= updated, || format!("expected times in order, got {times}"))?;
    }
    Ok(())
}

fn expected(value: &Value, name: &str, what: &str) -> String {
    format!("`{name}`: expected {what}, got {}", short(&value.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{response, time, version};

    #[test]
    fn version_and_time_checks_accept_valid_and_refuse_invalid_values() {
        for (text, good) in [
            ("1.0.0", true),
            ("0.10.3", true),
            ("v1.0.0", false),
            ("1.0", false),
            ("01.0.0", false),
            ("1.0.0-rc.1", false),
            ("1..0", false),
        ] {
            assert_eq!(version(&json!({ "v": text }), "v").is_ok(), good, "{text}");
        }
        for (text, good) in [
            ("2025-07-01T10:00:00Z", true),
            ("2025-07-01T10:00:00.123Z", true),
            ("2025-07-01 10:00:00Z", false),
            ("yesterday", false),
            ("2025-07-01T10:00:00", false),
        ] {
            assert_eq!(time(&json!({ "t": text }), "t").is_ok(), good, "{text}");
        }
    }

    #[test]
    fn invocation_response_without_a_required_field_is_refused() {
        let times = json!({ "created_at": "2025-07-01T10:00:00Z", "updated_at": "2025-07-01T10:00:05Z", "completed_at": "2025-07-01T10:00:05Z" });
        let whole =
            json!({ "execution_id": "e", "status": "completed", "skill_id": "s", "output": null, "timestamps": times });
        assert!(response(&whole).is_ok());
        for name in ["execution_id", "status", "skill_id", "output", "timestamps"] {
            let mut part = whole.clone();
            part.as_object_mut().expect("an object").shift_remove(name);
            assert!(response(&part).is_err(), "{name}");
        }
        let mut early = whole;
        early["status"] = json!("running");
        assert!(response(&early).is_err());
    }
}
