//! Command lines of programs, whose arguments are templates.

use serde::Serialize;

use crate::template::{EscapeContext, Template};

/// A program with its arguments, run without a shell.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandLine {
    /// Name or path of the program; never a template, so that no caller chooses the program.
    pub program: String,
    pub arguments: Vec<Template>,
}

impl CommandLine {
    /// A command line whose arguments are passed unchanged; `None` without a program.
    #[must_use]
    pub fn literal(words: &[String]) -> Option<Self> {
        let (program, arguments) = words.split_first().filter(|(program, _)| !program.is_empty())?;
        Some(Self { program: program.clone(), arguments: arguments.iter().map(Template::literal).collect() })
    }

    /// The program and its arguments as the author wrote them.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.program.as_str()).chain(self.arguments.iter().map(Template::as_str))
    }

    /// The program and its arguments with all values filled in. Each argument stays one argument, whatever its values
    /// contain.
    ///
    /// # Errors
    ///
    /// A value is missing or has a control character, or an argument would become an option because of its value.
    pub fn render(&self, context: impl Serialize) -> Result<Vec<String>, String> {
        let mut words = vec![self.program.clone()];
        let mut options_ended = false;
        for (index, template) in self.arguments.iter().enumerate() {
            let text = template.as_str();
            if template.is_plain() {
                options_ended |= text == "--";
                words.push(text.to_owned());
                continue;
            }
            let place = || format!("argument {} of `{}`", index + 1, self.program);
            let word = template
                .render(EscapeContext::Line, &context)
                .map_err(|error| format!("{} cannot be filled in: {}", place(), error.reason()))?;
            if word.starts_with('-') && !text.starts_with('-') && !options_ended {
                return Err(format!(
                    "{} would be read as an option, because its value begins with '-'; if the program accepts \"--\", \
                     write it before this argument in the agent file",
                    place()
                ));
            }
            words.push(word);
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, Value, json};

    fn render(words: &[&str], args: Value) -> Result<Vec<String>, String> {
        let arguments = words.iter().map(|word| Template::parse(*word).unwrap()).collect();
        let line = CommandLine { program: "find".to_owned(), arguments };
        line.render(Map::from_iter([("args".to_owned(), args)])).map(|words| words[1..].to_vec())
    }

    #[test]
    fn value_with_spaces_and_quotes_stays_one_argument() {
        let words = render(&["-name={{ args.q }}", "{{ args.q }}", "a\n"], json!({"q": "a 'b' \"c\"; rm $HOME *"}));
        assert_eq!(words.unwrap(), ["-name=a 'b' \"c\"; rm $HOME *", "a 'b' \"c\"; rm $HOME *", "a\n"]);
        assert_eq!(render(&["{{ args.q }}"], json!({"q": ""})).unwrap(), [""]);
        assert_eq!(render(&["{{ args.l | tojson }}"], json!({"l": ["a", 1]})).unwrap(), [r#"["a",1]"#]);
    }

    #[test]
    fn value_that_would_become_an_option_is_refused_unless_options_have_ended() {
        let refused = render(&["{{ args.q }}"], json!({"q": "-exec"})).unwrap_err();
        assert!(refused.starts_with("argument 1 of `find` would be read as an option"), "{refused}");
        assert!(render(&["{{ args.q }}{{ args.r }}"], json!({"q": "", "r": "-x"})).is_err());
        assert_eq!(render(&["--", "{{ args.q }}"], json!({"q": "-exec"})).unwrap(), ["--", "-exec"]);
        assert_eq!(render(&["-n", "-{{ args.q }}"], json!({"q": "5"})).unwrap(), ["-n", "-5"]);
    }

    #[test]
    fn missing_value_and_control_character_are_refused_with_the_argument() {
        let missing = render(&["-n", "{{ args.q }}"], json!({})).unwrap_err();
        assert_eq!(missing, "argument 2 of `find` cannot be filled in: `args.q` has no value");
        for value in ["a\0b", "a\nb", "\u{1b}[31m"] {
            assert!(render(&["{{ args.q }}"], json!({"q": value})).is_err(), "{value:?}");
        }
    }

    #[test]
    fn literal_command_line_passes_braces_unchanged() {
        let words = ["docker", "--format", "{{.ID}}"].map(str::to_owned);
        assert_eq!(CommandLine::literal(&words).unwrap().render(json!({})).unwrap(), words);
        assert_eq!(CommandLine::literal(&[String::new()]), None);
    }
}
