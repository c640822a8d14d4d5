//! Interpreters in a command line: which of their arguments are code, and which one is the file with the code.

use std::path::Path;

/// A program that runs code from an argument or a file.
struct InterpreterProgram {
    /// Names of the program, without the version at their end.
    names: &'static [&'static str],
    /// Letters of the short options that are followed by code, also within a cluster such as `-ne`.
    code_letters: &'static str,
    /// Other words that are followed by code.
    code_words: &'static [&'static str],
    /// Options that are followed by the file with the code.
    file_options: &'static [&'static str],
    /// Letters of the short options that have no value; after others it is not known which word is the file.
    flags: &'static str,
    /// Letters of the short options that are followed by another value.
    valued: &'static str,
    first_argument: InterpreterFirstArgument,
    /// Whether options may also follow other arguments.
    permutes: bool,
}

/// Meaning of an interpreter's first argument that is not an option.
#[derive(Clone, Copy, PartialEq)]
enum InterpreterFirstArgument {
    File,
    Code,
    Other,
}

const PLAIN: InterpreterProgram = InterpreterProgram {
    names: &[],
    code_letters: "",
    code_words: &[],
    file_options: &[],
    flags: "",
    valued: "",
    first_argument: InterpreterFirstArgument::File,
    permutes: false,
};

const INTERPRETERS: &[InterpreterProgram] = &[
    InterpreterProgram {
        names: &["ash", "bash", "dash", "fish", "ksh", "sh", "zsh"],
        code_letters: "c",
        flags: "aefhkmnprtuvxl",
        valued: "oO",
        ..PLAIN
    },
    InterpreterProgram {
        names: &["python", "pypy"],
        code_letters: "c",
        flags: "bBdEiIOPqsSuvx",
        valued: "WX",
        ..PLAIN
    },
    InterpreterProgram { names: &["perl"], code_letters: "eE", flags: "wWTtuU", ..PLAIN },
    InterpreterProgram { names: &["ruby"], code_letters: "e", code_words: &["--eval"], flags: "wvW", ..PLAIN },
    InterpreterProgram {
        names: &["node", "nodejs", "bun"],
        code_letters: "epr",
        code_words: &["--eval", "--print", "--import", "--require", "--loader"],
        ..PLAIN
    },
    InterpreterProgram { names: &["deno"], code_words: &["eval"], code_letters: "p", ..PLAIN },
    InterpreterProgram {
        names: &["php"],
        code_letters: "rBRE",
        code_words: &["--run", "--process-begin", "--process-code", "--process-end"],
        file_options: &["-f"],
        flags: "nqC",
        ..PLAIN
    },
    InterpreterProgram { names: &["lua", "luajit"], code_letters: "e", flags: "iv", ..PLAIN },
    InterpreterProgram { names: &["Rscript", "osascript"], code_letters: "e", ..PLAIN },
    InterpreterProgram { names: &["pwsh", "powershell"], code_letters: "cCeE", file_options: &["-File"], ..PLAIN },
    InterpreterProgram {
        names: &["java"],
        file_options: &["-jar"],
        first_argument: InterpreterFirstArgument::Other,
        ..PLAIN
    },
    InterpreterProgram {
        names: &["env"],
        code_letters: "S",
        code_words: &["--split-string"],
        first_argument: InterpreterFirstArgument::Other,
        ..PLAIN
    },
    InterpreterProgram {
        names: &["su", "runuser"],
        code_letters: "c",
        code_words: &["--command"],
        first_argument: InterpreterFirstArgument::Other,
        permutes: true,
        ..PLAIN
    },
    InterpreterProgram {
        names: &["awk", "gawk", "mawk", "nawk"],
        code_letters: "e",
        code_words: &["--source"],
        file_options: &["-f"],
        valued: "vF",
        first_argument: InterpreterFirstArgument::Code,
        ..PLAIN
    },
    InterpreterProgram {
        names: &["sed", "gsed"],
        code_letters: "e",
        code_words: &["--expression"],
        file_options: &["-f"],
        flags: "nErsuz",
        first_argument: InterpreterFirstArgument::Code,
        permutes: true,
        ..PLAIN
    },
];

#[derive(Clone, Copy, PartialEq)]
enum InterpreterArgumentMeaning {
    Code,
    File,
    Other,
}

/// Whether the argument `next` after these words is code of an interpreter, or an option that could become one with
/// code. `next` is a template with values.
pub(super) fn is_code(before: &[&str], next: &str) -> bool {
    let literal = next.find("{{").into_iter().chain(next.find("{%")).min().unwrap_or(next.len());
    (0..before.len()).any(|at| {
        let Some(interpreter) = interpreter(before[at]) else { return false };
        let mut state = InterpreterArgumentReader::after(interpreter, is_run(&before[..at]), &before[at + 1..]);
        state.read_template(&next[..literal])
    })
}

/// The script file that the last of these words names, if the program runs it. Only words with a file extension count,
/// because interpreters complete other names in their own ways.
pub(super) fn script_file<'w>(words: &[&'w str]) -> Option<&'w str> {
    let (last, before) = words.split_last()?;
    let at = before.iter().position(|word| interpreter(word).is_some_and(|found| !found.names.contains(&"env")))?;
    if !is_run(&before[..at]) {
        return None;
    }
    let mut state = InterpreterArgumentReader::after(interpreter(before[at])?, true, &before[at + 1..]);
    let is_file = state.read(last) == InterpreterArgumentMeaning::File
        && Path::new(last).extension().is_some()
        && !last.contains("://");
    is_file.then_some(*last)
}

fn interpreter(word: &str) -> Option<&'static InterpreterProgram> {
    let name = word.rsplit('/').next().unwrap_or_default();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').trim_end_matches('-');
    INTERPRETERS.iter().find(|interpreter| interpreter.names.contains(&name))
}

/// Whether the program after these words is run: they are nothing, or a wrapper with its options and values.
fn is_run(before: &[&str]) -> bool {
    const WRAPPERS: [&str; 13] = [
        "env", "nice", "nohup", "timeout", "time", "stdbuf", "setsid", "ionice", "busybox", "sudo", "doas", "xargs",
        "toybox",
    ];
    let Some((first, rest)) = before.split_first() else { return true };
    let is_detail = |word: &&str| {
        word.starts_with('-') || word.contains('=') || word.starts_with(|first: char| first.is_ascii_digit())
    };
    WRAPPERS.contains(&first.rsplit('/').next().unwrap_or_default())
        && rest.iter().all(|word| is_detail(word) || WRAPPERS.contains(word))
}

/// Reads the arguments of an interpreter one by one.
struct InterpreterArgumentReader {
    interpreter: &'static InterpreterProgram,
    /// Whether the interpreter is certainly the program that runs, and not the argument of another.
    is_run: bool,
    /// The next argument is code, also after further options.
    expects_code: bool,
    expects_file: bool,
    expects_value: bool,
    /// Whether it is known so far which words are values of options.
    is_certain: bool,
    has_code: bool,
    is_past_options: bool,
}

impl InterpreterArgumentReader {
    fn after(interpreter: &'static InterpreterProgram, is_run: bool, words: &[&str]) -> Self {
        let mut reader = Self {
            interpreter,
            is_run,
            expects_code: false,
            expects_file: false,
            expects_value: false,
            is_certain: true,
            has_code: false,
            is_past_options: false,
        };
        for word in words {
            reader.read(word);
        }
        reader
    }

    fn read(&mut self, word: &str) -> InterpreterArgumentMeaning {
        if std::mem::take(&mut self.expects_file) {
            self.has_code = true;
            self.is_past_options = self.interpreter.first_argument != InterpreterFirstArgument::Code;
            return InterpreterArgumentMeaning::File;
        }
        if std::mem::take(&mut self.expects_value) {
            return InterpreterArgumentMeaning::Other;
        }
        let is_option = word.len() > 1 && word.starts_with('-');
        if self.is_past_options {
            return InterpreterArgumentMeaning::Other;
        }
        if self.interpreter.code_words.contains(&word) {
            self.expects_code = true;
            return InterpreterArgumentMeaning::Other;
        }
        if word == "--" && !self.expects_code {
            self.is_past_options = self.interpreter.first_argument == InterpreterFirstArgument::Other || self.has_code;
            return InterpreterArgumentMeaning::Other;
        }
        if is_option {
            self.read_option(word);
            return InterpreterArgumentMeaning::Other;
        }
        if std::mem::take(&mut self.expects_code) {
            self.has_code = true;
            // A shell takes no further code; the others repeat the option.
            self.is_past_options = self.interpreter.code_letters == "c" && !self.interpreter.permutes;
            return InterpreterArgumentMeaning::Code;
        }
        let is_subcommand = matches!(self.interpreter.names, ["deno"] | [.., "bun"]) && word == "run";
        if is_subcommand {
            return InterpreterArgumentMeaning::Other;
        }
        self.is_past_options = !self.interpreter.permutes;
        match self.interpreter.first_argument {
            _ if std::mem::replace(&mut self.has_code, true) => InterpreterArgumentMeaning::Other,
            InterpreterFirstArgument::Code if self.is_run => InterpreterArgumentMeaning::Code,
            InterpreterFirstArgument::File if self.is_certain => InterpreterArgumentMeaning::File,
            _ => InterpreterArgumentMeaning::Other,
        }
    }

    fn read_option(&mut self, word: &str) {
        if self.interpreter.file_options.contains(&word) {
            self.expects_file = true;
        } else if let Some(name) = word.strip_prefix("--") {
            let known = ["allow-", "no-", "enable-", "experimental-"];
            self.is_certain &= name.contains('=') || known.iter().any(|start| name.starts_with(start));
        } else if word.contains(|letter| self.interpreter.code_letters.contains(letter)) {
            self.expects_code = true;
        } else if word.ends_with(|letter| self.interpreter.valued.contains(letter)) {
            self.expects_value = true;
        } else {
            self.is_certain &= word[1..].chars().all(|letter| self.interpreter.flags.contains(letter));
        }
    }

    /// Whether a template that begins with `literal` and goes on with a value is code.
    fn read_template(&mut self, literal: &str) -> bool {
        if self.expects_code {
            return true;
        }
        if !literal.starts_with('-') {
            return self.read(if literal.is_empty() { "x" } else { literal }) == InterpreterArgumentMeaning::Code;
        }
        if self.is_past_options || self.expects_file {
            return false;
        }
        match literal.split_once('=') {
            // `--eval=CODE`
            Some((name, _)) => self.interpreter.code_words.contains(&name),
            // The value completes a short option, or follows its letter.
            None => {
                let letters = self.interpreter.code_letters;
                !letters.is_empty() && (literal == "-" || literal == "--" || literal.contains(|c| letters.contains(c)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_that_an_interpreter_runs_as_code_is_recognised() {
        for words in [
            "sh -c {{x}}",
            "/bin/sh -ec {{x}}",
            "bash -c -e {{x}}",
            "bash -{{x}} y",
            "env A=1 bash -lc {{x}}",
            "env -S {{x}}",
            "busybox sh -c {{x}}",
            "timeout 5 sh -c {{x}}",
            "ssh host sh -c {{x}}",
            "su user -c {{x}}",
            "python3 -c {{x}}",
            "python3.12 -Sc {{x}}",
            "python3 -c{{x}}",
            "perl -ne {{x}}",
            "perl -e 1 -e {{x}}",
            "perl -e{{x}}",
            "ruby -e {{x}}",
            "node -pe {{x}}",
            "node --eval={{x}}",
            "node --import {{x}}",
            "bun -e {{x}}",
            "deno eval {{x}}",
            "php -r {{x}}",
            "lua -e {{x}}",
            "pwsh -Command {{x}}",
            "Rscript -e {{x}}",
            "awk {{x}}",
            "gawk -F, {{x}} file",
            "sed -n {{x}} file",
            "sed -e p -e {{x}}",
            "sed s/a/{{x}}/ file",
        ] {
            assert!(is_code_in(words), "{words}");
        }
    }

    #[test]
    fn argument_after_the_code_or_the_script_file_is_a_value() {
        for words in [
            "sh -c $1 sh {{x}}",
            "sh script.sh -c {{x}}",
            "python3 tool.py -c {{x}}",
            "python3 -m tool {{x}}",
            "node app.js -e {{x}}",
            "perl -e 1 {{x}}",
            "awk -f a.awk {{x}}",
            "awk -v n={{x}} 1",
            "awk 1 {{x}}",
            "sed -n p {{x}}",
            "java -jar a.jar {{x}}",
            "grep -e {{x}} file",
            "find . -name {{x}}",
        ] {
            assert!(!is_code_in(words), "{words}");
        }
    }

    fn is_code_in(line: &str) -> bool {
        let words: Vec<_> = line.split(' ').collect();
        let at = words.iter().position(|word| word.contains("{{")).unwrap();
        is_code(&words[..at], words[at])
    }

    #[test]
    fn script_file_is_found_in_a_command_line_unless_its_position_is_uncertain() {
        let found = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            (1..=words.len()).filter_map(|length| script_file(&words[..length])).collect::<Vec<_>>().join(" ")
        };
        for (line, file) in [
            ("python3 brain.py", "brain.py"),
            ("python3 -u brain.py other.py", "brain.py"),
            ("/usr/bin/env python3 brain.py", "brain.py"),
            ("sh -e run.sh x.txt", "run.sh"),
            ("node dist/index.js --verbose", "dist/index.js"),
            ("node --no-warnings index.mjs", "index.mjs"),
            ("deno run --allow-net main.ts", "main.ts"),
            ("java -jar server.jar", "server.jar"),
            ("sed -f a.sed b.txt", "a.sed"),
            ("python3 -X dev.py brain.py", "brain.py"),
            // It is not known whether the next word is the value of the option.
            ("python3 --check-hash-based-pycs default.py brain.py", ""),
            ("node --require dotenv.js index.js", ""),
            ("deno run https://deno.land/x.ts", ""),
            ("python3 -m http.server", ""),
            ("python3 -c print() x.py", ""),
            ("node index", ""),
            ("echo python3 brain.py", ""),
        ] {
            assert_eq!(found(line), file, "{line}");
        }
    }
}
