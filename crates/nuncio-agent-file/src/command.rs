//! Command lines: a program, and arguments that are templates.

use super::external::ExternalTarget;
use super::names::DeclaredNames;
use super::reader::{LocatedTomlValue, TomlTableReader};
use super::source::cut;
use super::templates::{self, TemplateUse};
use nuncio_core::agent::CommandLine;
use nuncio_core::template::Template;

mod script;

/// Reads a command line. The arguments may refer to the variables of `used`.
pub(super) fn read(
    item: &LocatedTomlValue<'_>,
    used: TemplateUse<'_>,
    names: &DeclaredNames<'_>,
) -> Option<CommandLine> {
    let mut words = item.some_list("a list of a program and its arguments")?.into_iter();
    let first = words.next()?;
    let program = first.text()?;
    if ["{{", "{%"].iter().any(|mark| program.contains(mark)) {
        return first.position.reject("the program is not a template", "allowed: the name or path of a program");
    }
    let mut line = CommandLine { program: program.to_owned(), arguments: Vec::new() };
    check_nul(&first, program)?;
    first.position.refer_to(ExternalTarget::Program(program.to_owned()));
    for word in words {
        let text = word.any_text()?;
        check_nul(&word, text)?;
        let Some(template) = argument(&word, text, used, names) else { continue };
        if templates::secrets_in(&template).next().is_some() {
            word.position.note(
                "other programs of this machine can read the secret in the command line",
                "pass it in env, if the program accepts that",
            );
        }
        let before: Vec<&str> = line.words().collect();
        if template.is_plain() {
            let words: Vec<&str> = before.into_iter().chain([text]).collect();
            if let Some(file) = script::script_file(&words) {
                word.position.refer_to(ExternalTarget::Script(file.to_owned()));
            }
        } else if script::is_code(&before, text) {
            word.position.fault(
                "a value in a script could run anything",
                "pass it as an argument after the script ($1 in a shell), or in env",
            );
        }
        line.arguments.push(template);
    }
    Some(line)
}

/// Reads environment variables, whose values are templates.
pub(super) fn env(
    table: &TomlTableReader<'_>,
    used: TemplateUse<'_>,
    names: &DeclaredNames<'_>,
) -> Vec<(String, Template)> {
    templates::named(table, used, names, "the name of an environment variable", |name| {
        !name.is_empty() && !name.contains(['=', '\0'])
    })
}

fn argument(
    word: &LocatedTomlValue<'_>,
    text: &str,
    used: TemplateUse<'_>,
    names: &DeclaredNames<'_>,
) -> Option<Template> {
    if let Err(error) = Template::parse(text) {
        let help =
            format!("arguments are templates; to pass braces unchanged, write {{% raw %}}{}{{% endraw %}}", cut(text));
        return word.position.reject(format!("not a template: {}", error.reason()), help);
    }
    templates::read(word, used, names)
}

fn check_nul(word: &LocatedTomlValue<'_>, text: &str) -> Option<()> {
    if text.contains('\0') {
        return word.position.reject("contains a NUL character", "allowed: a text without NUL");
    }
    Some(())
}
