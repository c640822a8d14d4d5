//! Faults in `[[option]]`, `[[scope]]`, `[secrets]` and `[allow]`.

use super::refused;

refused! {
unknown_option_type_is_refused:
r#"
[[option]]
name = "o"
type = "string"
"#
=>
r#"
agent.toml:6:8: option "o".type: found "string"
  allowed: "text", "secret", "select"
"#;

invalid_option_name_is_refused:
r#"
[[option]]
name = "an option"
type = "text"
"#
=>
r#"
agent.toml:5:8: option "an option".name: "an option" is not an option name
  allowed: 1 to 64 letters, digits, '_', '-' and '.'
"#;

default_of_secret_option_is_refused:
r#"
[[option]]
name = "o"
type = "secret"
default = "hunter2"
"#
=>
r#"
agent.toml:7:11: option "o".default: a secret has no default
  allowed: "", or no default at all
"#;

select_option_without_choices_is_refused:
r#"
[[option]]
name = "o"
type = "select"
default = "a"
"#
=>
r#"
agent.toml:4:1: option "o".options: missing
  needed: the texts to choose from
"#;

select_option_without_default_is_refused:
r#"
[[option]]
name = "o"
type = "select"
options = ["a"]
"#
=>
r#"
agent.toml:4:1: option "o".default: missing
  needed: one of the options
"#;

select_default_outside_choices_is_refused:
r#"
[[option]]
name = "o"
type = "select"
options = ["English", "German"]
default = "english"
"#
=>
r#"
agent.toml:8:11: option "o".default: found "english"
  did you mean "English"? allowed: "English", "German"
"#;

list_of_choices_for_text_option_is_refused:
r#"
[[option]]
name = "o"
type = "text"
options = ["a"]
"#
=>
r#"
agent.toml:7:1: option "o".options: not allowed here
  only an option of type "select" has options
"#;

duplicate_option_name_is_refused:
r#"
[[option]]
name = "o"
type = "text"

[[option]]
name = "o"
type = "text"
"#
=>
r#"
agent.toml:9:8: option "o".name: the option at line 4 already has this name
  allowed: one that no other option has
"#;
}

refused! {
scope_without_label_and_sensitivity_is_refused:
r#"
[[scope]]
id = "a:b"
"#
=>
r#"
agent.toml:4:1: scope "a:b".label: missing
  needed: a text, or one for each language
agent.toml:4:1: scope "a:b".sensitivity: missing
  needed: one of "low", "medium", "high"
"#;

invalid_scope_id_is_refused:
r#"
[[scope]]
id = "a b"
label = "A"
sensitivity = "low"
"#
=>
r#"
agent.toml:5:6: scope "a b".id: "a b" is not a scope
  allowed: 1 to 128 letters, digits, '_', '-', '.' and ':'
"#;

unknown_sensitivity_is_refused_with_suggestion:
r#"
[[scope]]
id = "a"
label = "A"
sensitivity = "hihg"
"#
=>
r#"
agent.toml:7:15: scope "a".sensitivity: found "hihg"
  did you mean "high"? allowed: "low", "medium", "high"
"#;

numeric_scope_label_is_refused:
r#"
[[scope]]
id = "a"
label = 1
sensitivity = "low"
"#
=>
r#"
agent.toml:6:9: scope "a".label: found the number 1
  allowed: a text, or a table such as { en = "Read", zh-CN = "读取" }
"#;

scope_label_without_any_language_is_refused:
r#"
[[scope]]
id = "a"
label = {}
sensitivity = "low"
"#
=>
r#"
agent.toml:6:9: scope "a".label: found no text
  allowed: at least one language
"#;

invalid_language_tag_of_label_is_refused:
r#"
[[scope]]
id = "a"
label = { en_US = "A" }
sensitivity = "low"
"#
=>
r#"
agent.toml:6:19: scope "a".label.en_US: not a language
  allowed: a language tag such as "en" or "zh-CN"
"#;

duplicate_scope_id_is_refused:
r#"
[[scope]]
id = "a"
label = "A"
sensitivity = "low"
[[scope]]
id = "a"
label = "A"
sensitivity = "low"
"#
=>
r#"
agent.toml:9:6: scope "a".id: the scope at line 4 already has this id
  allowed: one that no other scope has
"#;
}

refused! {
secret_value_written_into_agent_file_is_refused:
r#"
[secrets]
KEY = "hunter2"
"#
=>
r#"
agent.toml:5:7: secrets.KEY: a secret is not written into the agent file
  allowed: { env = "VARIABLE" } or { file = "path" }
"#;

secret_without_source_is_refused:
r#"
[secrets]
KEY = {}
"#
=>
r#"
agent.toml:5:7: secrets.KEY: has none of "env", "file"
  needed: one of them
"#;

secret_with_two_sources_is_refused:
r#"
[secrets]
KEY = { env = "A", file = "b" }
"#
=>
r#"
agent.toml:5:20: secrets.KEY.file: not allowed together with "env"
  allowed: only one of "env", "file"
"#;

secret_with_unknown_source_is_refused:
r#"
[secrets]
KEY = { vault = "a" }
"#
=>
r#"
agent.toml:5:7: secrets.KEY: has none of "env", "file"
  needed: one of them
agent.toml:5:9: secrets.KEY.vault: unknown key
  allowed: "env", "file"
"#;

secret_name_that_is_no_identifier_is_refused:
r#"
[secrets]
"a-b" = { env = "A" }
1a = { env = "A" }
"#
=>
r#"
agent.toml:5:9: secrets.a-b: "a-b" cannot be used in a template
  allowed: 1 to 64 letters, digits and '_', not beginning with a digit
agent.toml:6:6: secrets.1a: "1a" cannot be used in a template
  allowed: 1 to 64 letters, digits and '_', not beginning with a digit
"#;

empty_environment_variable_name_of_secret_is_refused:
r#"
[secrets]
KEY = { env = "" }
"#
=>
r#"
agent.toml:5:15: secrets.KEY.env: found an empty text
  allowed: a non-empty text
"#;

unknown_key_in_allow_section_is_refused:
r#"
[allow]
exec = ["/opt"]
"#
=>
r#"
agent.toml:5:1: allow.exec: unknown key
  allowed: "read", "write", "unix"
"#;

invalid_values_in_allow_section_are_refused:
r#"
[allow]
read = "/srv"
write = ["~ada/notes"]
unix = "yes"
"#
=>
r#"
agent.toml:5:8: allow.read: found the text "/srv"
  allowed: a list of texts
agent.toml:6:9: allow.write: "~ada/notes" is not a path
  allowed: a path from the agent file's folder, from / or from ~/
agent.toml:7:8: allow.unix: found the text "yes"
  allowed: true or false
"#;
}
