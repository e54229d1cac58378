//! Options of a command: `--name value`, `--name=value` and plain flags.

/// The words after the command, taken one option at a time; what is left over is an error.
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

    /// Whether the flag was given; takes it out.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() != before
    }

    /// The value of an option; takes it out. Of several, the last one counts.
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

    /// The value of an option that is a whole number.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, String> {
        self.value(name)?
            .map(|text| {
                text.parse()
                    .map_err(|_| format!("`{name} {text}`: expected a whole number"))
            })
            .transpose()
    }

    /// What was not taken, for a program that is called next.
    pub(crate) fn rest(self) -> Vec<String> {
        self.words
    }

    /// Nothing may be left.
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
    fn mistakes_are_told() {
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
