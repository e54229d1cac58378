//! The regular expressions of `--filter`: `|`, `( )`, `[a-z]`, `.`, `*`, `+`, `?`, `^`, `$`.

/// A parsed expression.
#[derive(Debug, PartialEq)]
pub struct Pattern(Node);

#[derive(Debug, PartialEq)]
enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Repeat(Box<Node>, usize, usize),
    Letter(char),
    Dot,
    Class(Vec<(char, char)>, bool),
    Start,
    End,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let mut parser = Parser {
            letters: text.chars().collect(),
            at: 0,
        };
        let node = parser.any()?;
        match parser.peek() {
            None => Ok(Pattern(node)),
            Some(c) => Err(format!("`{text}`: `{c}` does not belong here")),
        }
    }

    /// Whether some part of `text` matches.
    pub fn matches(&self, text: &str) -> bool {
        let letters: Vec<char> = text.chars().collect();
        (0..=letters.len()).any(|at| step(&self.0, &letters, at, &mut |_| true))
    }
}

/// Calls `then` with every place where a match of `node` from `at` can end, until it says yes.
fn step(node: &Node, text: &[char], at: usize, then: &mut dyn FnMut(usize) -> bool) -> bool {
    let letter = |fits: bool, then: &mut dyn FnMut(usize) -> bool| fits && then(at + 1);
    match node {
        Node::Any(nodes) => nodes.iter().any(|node| step(node, text, at, then)),
        Node::All(nodes) => match nodes.split_first() {
            None => then(at),
            Some((first, rest)) => step(first, text, at, &mut |at| sequence(rest, text, at, then)),
        },
        Node::Repeat(node, least, most) => repeat(node, *least, *most, text, at, then),
        Node::Letter(c) => letter(text.get(at) == Some(c), then),
        Node::Dot => letter(at < text.len(), then),
        Node::Class(ranges, inside) => {
            let fits = |c: &char| ranges.iter().any(|(a, b)| a <= c && c <= b) == *inside;
            letter(text.get(at).is_some_and(fits), then)
        }
        Node::Start => at == 0 && then(at),
        Node::End => at == text.len() && then(at),
    }
}

fn sequence(nodes: &[Node], text: &[char], at: usize, then: &mut dyn FnMut(usize) -> bool) -> bool {
    match nodes.split_first() {
        None => then(at),
        Some((first, rest)) => step(first, text, at, &mut |at| sequence(rest, text, at, then)),
    }
}

fn repeat(
    node: &Node,
    least: usize,
    most: usize,
    text: &[char],
    at: usize,
    then: &mut dyn FnMut(usize) -> bool,
) -> bool {
    let more = most > 0
        && step(node, text, at, &mut |next| {
            // An empty match would repeat for ever.
            next != at && repeat(node, least.saturating_sub(1), most - 1, text, next, then)
        });
    more || (least == 0 && then(at))
}

struct Parser {
    letters: Vec<char>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += usize::from(c.is_some());
        c
    }

    fn any(&mut self) -> Result<Node, String> {
        let mut nodes = vec![self.all()?];
        while self.peek() == Some('|') {
            self.at += 1;
            nodes.push(self.all()?);
        }
        Ok(Node::Any(nodes))
    }

    fn all(&mut self) -> Result<Node, String> {
        let mut nodes = Vec::new();
        while let Some(c) = self.peek() {
            if c == '|' || c == ')' {
                break;
            }
            let mut node = self.one()?;
            while let Some(sign @ ('*' | '+' | '?')) = self.peek() {
                self.at += 1;
                let (least, most) = match sign {
                    '*' => (0, usize::MAX),
                    '+' => (1, usize::MAX),
                    _ => (0, 1),
                };
                node = Node::Repeat(Box::new(node), least, most);
            }
            nodes.push(node);
        }
        Ok(Node::All(nodes))
    }

    fn one(&mut self) -> Result<Node, String> {
        Ok(match self.next() {
            Some('.') => Node::Dot,
            Some('^') => Node::Start,
            Some('$') => Node::End,
            Some('(') => {
                let node = self.any()?;
                if self.next() != Some(')') {
                    return Err("a `(` is not closed".into());
                }
                node
            }
            Some('[') => self.class()?,
            Some('\\') => Node::Letter(self.next().ok_or("a `\\` at the end")?),
            Some(c @ ('*' | '+' | '?')) => return Err(format!("`{c}` has nothing to repeat")),
            Some(c) => Node::Letter(c),
            None => return Err("an expression is missing".into()),
        })
    }

    fn class(&mut self) -> Result<Node, String> {
        let inside = self.peek() != Some('^');
        self.at += usize::from(!inside);
        let mut ranges = Vec::new();
        loop {
            let first = self.next().ok_or("a `[` is not closed")?;
            if first == ']' && !ranges.is_empty() {
                return Ok(Node::Class(ranges, inside));
            }
            let last = if self.peek() == Some('-')
                && self.letters.get(self.at + 1).is_some_and(|c| *c != ']')
            {
                self.at += 1;
                self.next().ok_or("a `[` is not closed")?
            } else {
                first
            };
            ranges.push((first, last));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let cases = [
            ("saxpy|jacobi", "jacobi", true),
            ("saxpy|jacobi", "sum", false),
            ("^mpm", "mpm3d", true),
            ("^pm", "mpm3d", false),
            ("m.m[23]d$", "mpm2d", true),
            ("m.m[^23]d", "mpm2d", false),
            ("^(s|j).*[yi]$", "saxpy", true),
            ("^(a*)*$", "aaab", false),
            ("", "anything", true),
            ("ju+l?ia", "juuia", true),
            ("^(ab)+$", "abab", true),
            ("2\\^24", "2^24", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                Pattern::parse(pattern).map(|p| p.matches(text)),
                Ok(expected),
                "{pattern} on {text}"
            );
        }
        for wrong in ["(", "a)", "[a", "*", "a\\"] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
