//! Parses options of a command: `--name value`, `--name=value` and flags.

/// The arguments of a command. Options are taken one at a time; leftover arguments are an error.
#[derive(Debug)]
pub(crate) struct Args {
    words: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: &[String]) -> Args {
        Args {
            words: words.to_vec(),
        }
    }

    /// Takes a flag; returns whether it was given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() != before
    }

    /// Takes the value of an option; the last one wins.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>, String> {
        let mut found = None;
        let mut at = 0;
        while at < self.words.len() {
            let word = &self.words[at];
            if word == name {
                if at + 1 >= self.words.len() {
                    return Err(format!("`{name}` needs a value"));
                }
                found = Some(self.words.remove(at + 1));
                self.words.remove(at);
            } else if let Some(value) = word
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix('='))
            {
                found = Some(value.to_string());
                self.words.remove(at);
            } else {
                at += 1;
            }
        }
        Ok(found)
    }

    /// Takes the value of an integer option.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, String> {
        self.value(name)?
            .map(|text| {
                text.parse()
                    .map_err(|_| format!("`{name} {text}`: expected an integer"))
            })
            .transpose()
    }

    /// The remaining arguments, to pass to another program.
    pub(crate) fn rest(self) -> Vec<String> {
        self.words
    }

    /// Rejects remaining arguments.
    pub(crate) fn finish(self, command: &str) -> Result<(), String> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(format!(
                "`{word}` is not an option of `{command}`; see `cargo xtask help {command}`"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Args {
        Args::new(
            &words
                .iter()
                .map(|word| word.to_string())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn both_spellings_of_a_value() {
        let mut a = args(&["--seed", "7", "--seconds=12", "--cpp"]);
        assert_eq!(a.number("--seed"), Ok(Some(7)));
        assert_eq!(a.number("--seconds"), Ok(Some(12)));
        assert_eq!(a.number("--frames"), Ok(None));
        assert!(a.flag("--cpp"));
        assert!(!a.flag("--cpp"));
        assert_eq!(a.finish("bench"), Ok(()));
    }

    #[test]
    fn invalid_arguments_are_errors() {
        assert_eq!(
            args(&["--seed"]).value("--seed"),
            Err("`--seed` needs a value".to_string())
        );
        assert!(args(&["--seed", "x"]).number("--seed").is_err());
        assert!(args(&["--sed"]).finish("fuzz").is_err());
        assert_eq!(args(&["a", "--b"]).rest(), ["a", "--b"]);
    }

    #[test]
    fn the_last_of_several_counts() {
        assert_eq!(
            args(&["--seed=1", "--seed", "2"]).number("--seed"),
            Ok(Some(2))
        );
    }
}
