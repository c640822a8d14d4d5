//! What is wrong with `[[option]]`, `[[scope]]` and `[secrets]`.

use super::refused;

refused! {
an_option_of_an_unknown_type:
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

an_option_with_a_wrong_name:
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

a_secret_with_a_default:
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

a_select_without_options:
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

a_select_without_a_default:
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

a_default_that_is_no_option:
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

options_of_a_text:
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

two_options_of_one_name:
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
agent.toml:9:8: option "o".name: the option at line 4 has this name already
  allowed: one that no other option has
"#;
}

refused! {
a_scope_with_nothing_but_an_id:
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

a_scope_with_a_wrong_id:
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

an_unknown_sensitivity:
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

a_label_that_is_a_number:
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

a_label_in_no_language:
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

a_label_in_something_that_is_no_language:
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

two_scopes_of_one_id:
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
agent.toml:9:6: scope "a".id: the scope at line 4 has this id already
  allowed: one that no other scope has
"#;
}

refused! {
a_secret_written_out:
r#"
[secrets]
KEY = "hunter2"
"#
=>
r#"
agent.toml:5:7: secrets.KEY: a secret is not written into the agent file
  allowed: { env = "VARIABLE" } or { file = "path" }
"#;

a_secret_from_nowhere:
r#"
[secrets]
KEY = {}
"#
=>
r#"
agent.toml:5:7: secrets.KEY: has none of "env", "file"
  needed: one of them
"#;

a_secret_from_two_places:
r#"
[secrets]
KEY = { env = "A", file = "b" }
"#
=>
r#"
agent.toml:5:20: secrets.KEY.file: stands beside "env"
  allowed: only one of "env", "file"
"#;

a_secret_from_an_unknown_place:
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

a_secret_no_template_could_name:
r#"
[secrets]
"a-b" = { env = "A" }
1a = { env = "A" }
"#
=>
r#"
agent.toml:5:9: secrets.a-b: "a-b" could not be named in a template
  allowed: 1 to 64 letters, digits and '_', not beginning with a digit
agent.toml:6:6: secrets.1a: "1a" could not be named in a template
  allowed: 1 to 64 letters, digits and '_', not beginning with a digit
"#;

an_empty_variable:
r#"
[secrets]
KEY = { env = "" }
"#
=>
r#"
agent.toml:5:15: secrets.KEY.env: found an empty text
  allowed: a text with something in it
"#;

an_allowance_of_an_unknown_kind:
r#"
[allow]
exec = ["/opt"]
"#
=>
r#"
agent.toml:5:1: allow.exec: unknown key
  allowed: "read", "write", "unix"
"#;

allowed_paths_of_another_kind:
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
