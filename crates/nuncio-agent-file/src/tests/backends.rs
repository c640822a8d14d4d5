//! Faults in `run` and `[[mcp]]`.

use super::refused;

refused! {
tool_run_without_backend_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = {}
"#
=>
r#"
agent.toml:8:7: tool "find".run: has none of "mcp", "http", "command", "human", "skill", "anp", "answer", "device"
  needed: one of them
"#;

tool_run_with_two_backends_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { mcp = "m", command = ["x"] }
[[mcp]]
name = "m"
url = "https://m.example/"
"#
=>
r#"
agent.toml:8:20: tool "find".run.command: not allowed together with "mcp"
  allowed: only one of "mcp", "http", "command", "human", "skill", "anp", "answer", "device"
"#;

tool_run_with_unknown_backend_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { robot = true }
"#
=>
r#"
agent.toml:8:7: tool "find".run: has none of "mcp", "http", "command", "human", "skill", "anp", "answer", "device"
  needed: one of them
agent.toml:8:9: tool "find".run.robot: unknown key
  allowed: "mcp", "http", "command", "human", "skill", "anp", "answer", "device"
"#;

tool_run_given_as_text_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = "date"
"#
=>
r#"
agent.toml:8:7: tool "find".run: found the text "date"
  allowed: a table
"#;

tool_with_misspelt_mcp_server_is_refused_with_suggestion:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { mcp = "hotle" }
[[mcp]]
name = "hotel"
url = "https://m.example/"
"#
=>
r#"
agent.toml:8:15: tool "find".run.mcp: no [[mcp]] is named "hotle"
  did you mean "hotel"? declared: "hotel"
"#;

tool_with_mcp_server_is_refused_if_the_file_declares_no_servers:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { mcp = "hotel" }
"#
=>
r#"
agent.toml:8:15: tool "find".run.mcp: no [[mcp]] is named "hotel"
  the file has no [[mcp]] sections
"#;

tool_command_that_is_empty_or_a_text_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = [] }
[[tool]]
name = "b"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = [""] }
[[tool]]
name = "c"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = "date" }
"#
=>
r#"
agent.toml:8:19: tool "find".run.command: found an empty list
  allowed: a list of a program and its arguments, not empty
agent.toml:13:20: tool "b".run.command[0]: found an empty text
  allowed: a non-empty text
agent.toml:18:19: tool "c".run.command: found the text "date"
  allowed: a list of a program and its arguments
"#;

nul_character_in_tool_command_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["a", "\u0000"] }
"#
=>
r#"
agent.toml:8:25: tool "find".run.command[1]: contains a NUL character
  allowed: a text without NUL
"#;

env_and_tool_keys_are_refused_for_http_tool:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { http = { url = "https://a.example/" }, env = {}, tool = "x" }
"#
=>
r#"
agent.toml:8:48: tool "find".run.env: not allowed here
  allowed only with "command"
agent.toml:8:58: tool "find".run.tool: not allowed here
  the tool of an MCP server: allowed only with "mcp"
"#;

invalid_environment_variable_name_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["x"], env = { "A=B" = "1" } }
"#
=>
r#"
agent.toml:8:42: tool "find".run.env."A=B": "A=B" is not the name of an environment variable
"#;

http_tool_without_url_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { http = {} }
"#
=>
r#"
agent.toml:8:16: tool "find".run.http.url: missing
  needed: the URL of the request
"#;

unknown_http_method_is_refused_with_suggestion:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { http = { method = "get", url = "https://a.example/" } }
"#
=>
r#"
agent.toml:8:27: tool "find".run.http.method: found "get"
  did you mean "GET"? allowed: "GET", "POST", "PUT", "PATCH", "DELETE"
"#;

http_tool_url_without_http_scheme_and_host_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { http = { url = "{{ args.q }}/x" } }
[[tool]]
name = "b"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { http = { url = "ftp://a.example/" } }
[[tool]]
name = "c"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { http = { url = "https:///x" } }
"#
=>
r#"
agent.toml:8:24: tool "find".run.http.url: "{{ args.q }}/x" is not a web address
  allowed: a template beginning with "https://" or "http://" and a host
agent.toml:13:24: tool "b".run.http.url: "ftp://a.example/" is not a web address
  allowed: a template beginning with "https://" or "http://" and a host
agent.toml:18:24: tool "c".run.http.url: "https:///x" is not a web address
  allowed: a template beginning with "https://" or "http://" and a host
"#;

http_request_that_could_not_be_served_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} }, required = ["q"] }
run = { http = { url = "https://{{ args.q }}/x" } }
[[tool]]
name = "user"
description = "Finds."
input = { type = "object" }
run = { http = { url = "https://u:p@a.example/x" } }
[[tool]]
name = "climb"
description = "Finds."
input = { type = "object" }
run = { http = { url = "https://a.example/x/../y" } }
[[tool]]
name = "port"
description = "Finds."
input = { type = "object" }
run = { http = { url = "https://a.example:99999/", headers = { Host = "b", content-length = "1" } } }
"#
=>
r#"
agent.toml:8:24: tool "find".run.http.url: the address "https://{{ args.q }}/x" must contain its host and port and a slash after them before the first {{ … }}
  allowed: "https://HOST/…" or "http://HOST/…"; only what follows the host's slash can be filled in
agent.toml:13:24: tool "user".run.http.url: the address "a.example" contains a user name or password; put them into a header
  allowed: "https://HOST/…" or "http://HOST/…"; only what follows the host's slash can be filled in
agent.toml:18:24: tool "climb".run.http.url: the address "https://a.example/x/../y" contains `.` or `..` as a segment of its path
  allowed: "https://HOST/…" or "http://HOST/…"; only what follows the host's slash can be filled in
agent.toml:23:24: tool "port".run.http.url: the address "https://a.example:99999/" is not valid: invalid port number
  allowed: "https://HOST/…" or "http://HOST/…"; only what follows the host's slash can be filled in
agent.toml:23:71: tool "port".run.http.headers.Host: the header "Host" is written by the server itself
  remove it
agent.toml:23:93: tool "port".run.http.headers.content-length: the header "content-length" is written by the server itself
  remove it
"#;

invalid_http_header_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { http = { url = "https://a.example/", headers = { "A B" = "x", C = 1 } } }
"#
=>
r#"
agent.toml:8:66: tool "find".run.http.headers."A B": "A B" is not the name of a header
agent.toml:8:75: tool "find".run.http.headers.C: found the number 1
  allowed: a text
"#;

invalid_http_body_template_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { http = { url = "https://a.example/", body = "{% if %}" } }
"#
=>
r#"
agent.toml:8:53: tool "find".run.http.body: not a template: unexpected end of block
  allowed: text with {{ … }} places and {% … %} blocks, in the Jinja language
"#;

misspelt_secret_in_template_is_refused_with_suggestion:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { http = { url = "https://a.example/", headers = { A = "{{ secrets.KYE }}" } } }
[secrets]
KEY = { env = "KEY" }
"#
=>
r#"
agent.toml:8:66: tool "find".run.http.headers.A: no secret is named "KYE"
  did you mean "KEY"? declared: "KEY"
"#;

secret_in_template_is_refused_if_the_file_declares_no_secrets:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["x"], env = { A = "{{ secrets.KEY }}" } }
"#
=>
r#"
agent.toml:8:42: tool "find".run.env.A: no secret is named "KEY"
  the file has no [secrets] at all
"#;

secret_name_computed_from_arguments_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["x"], env = { A = "{{ secrets[args.q] }}" } }
[secrets]
KEY = { env = "KEY" }
"#
=>
r#"
agent.toml:8:42: tool "find".run.env.A: names no secret
  allowed: {{ secrets.NAME }}, with the name written out
"#;
}

refused! {
mcp_server_without_command_or_url_is_refused:
r#"
[[mcp]]
name = "m"
"#
=>
r#"
agent.toml:4:1: mcp "m": has none of "command", "url"
  needed: one of them
"#;

mcp_server_with_command_and_url_is_refused:
r#"
[[mcp]]
name = "m"
command = ["x"]
url = "https://m.example/"
"#
=>
r#"
agent.toml:7:1: mcp "m".url: not allowed together with "command"
  allowed: only one of "command", "url"
"#;

invalid_mcp_server_name_and_url_are_both_reported:
r#"
[[mcp]]
name = "m m"
url = "m.example"
"#
=>
r#"
agent.toml:5:8: mcp "m m".name: "m m" is not a backend name
  allowed: 1 to 64 letters, digits, '_' and '-'
agent.toml:6:7: mcp "m m".url: "m.example" is not a web address: relative URL without a base
  allowed: an address beginning with "https://" or "http://"
"#;

mcp_server_with_websocket_url_is_refused:
r#"
[[mcp]]
name = "m"
url = "ws://m.example/"
"#
=>
r#"
agent.toml:6:7: mcp "m".url: "ws://m.example/" is not a web address: its scheme is "ws"
  allowed: an address beginning with "https://" or "http://"
"#;

headers_are_refused_for_mcp_server_with_command:
r#"
[[mcp]]
name = "m"
command = ["x"]
headers = { A = "b" }
"#
=>
r#"
agent.toml:7:1: mcp "m".headers: not allowed here
  allowed only with "url"
"#;

env_is_refused_for_mcp_server_with_url:
r#"
[[mcp]]
name = "m"
url = "https://m.example/"
env = { A = "b" }
"#
=>
r#"
agent.toml:7:1: mcp "m".env: not allowed here
  allowed only with "command"
"#;

duplicate_mcp_server_name_is_refused:
r#"
[[mcp]]
name = "m"
command = ["x"]
[[mcp]]
name = "m"
command = ["y"]
"#
=>
r#"
agent.toml:8:8: mcp "m".name: the MCP server at line 4 already has this name
  allowed: one that no other MCP server has
"#;

mcp_import_given_as_text_is_refused:
r#"
[[mcp]]
name = "m"
command = ["x"]
import = "all"
"#
=>
r#"
agent.toml:7:10: mcp "m".import: found the text "all"
  allowed: true for every tool, or a list of tool names
"#;

empty_mcp_import_list_is_refused:
r#"
[[mcp]]
name = "m"
command = ["x"]
import = []
"#
=>
r#"
agent.toml:7:10: mcp "m".import: found an empty list
  allowed: a list of tool names, not empty
"#;

mcp_import_settings_without_import_are_refused:
r#"
[[mcp]]
name = "m"
command = ["x"]
scope = "a"
expose = false
human_authorization = true
"#
=>
r#"
agent.toml:7:1: mcp "m".scope: not allowed here
  applies only to imported tools, and the server has no "import"
agent.toml:8:1: mcp "m".expose: not allowed here
  applies only to imported tools, and the server has no "import"
agent.toml:9:1: mcp "m".human_authorization: not allowed here
  applies only to imported tools, and the server has no "import"
"#;

undeclared_scope_of_mcp_import_is_refused:
r#"
[[mcp]]
name = "m"
command = ["x"]
import = true
scope = "a"
"#
=>
r#"
agent.toml:8:9: mcp "m".scope: no [[scope]] is named "a"
  the file has no [[scope]] sections
"#;

imported_mcp_tool_with_already_used_name_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
[[mcp]]
name = "m"
command = ["x"]
import = ["find", "a", "a"]
[[mcp]]
name = "n"
command = ["x"]
import = ["a"]
"#
=>
r#"
agent.toml:12:11: mcp "m".import[0]: there is a [[tool]] "find" too
  allowed: either the import or the [[tool]]
agent.toml:12:24: mcp "m".import[2]: "a" is already imported
  allowed: each name once
agent.toml:16:11: mcp "n".import[0]: "a" is already imported
  allowed: each name once
"#;
}
