//! Compares the messages in the book with the actual ones.

use std::sync::{Mutex, PoisonError};
use wuji_book::{pages, root};

/// Tests run concurrently, and several may have blocks of one page.
static WRITING: Mutex<()> = Mutex::new(());

/// Compares a message with the `text` block after a block of a page. `WUJI_BLESS=1` replaces it.
pub(crate) fn compare(path: &str, number: usize, message: &str) {
    let writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let all = pages().unwrap();
    let page = all.iter().find(|p| p.path == path).unwrap();
    let blocks = page.blocks().unwrap();
    let next = blocks[number].next.expect("a `text` block follows");
    let shown = &blocks[next];
    let at = format!("{path}:{}", shown.line);
    assert_eq!(shown.info, "text", "{at}: a message is in a `text` block");
    let message: String = message
        .lines()
        .flat_map(|line| [line.trim_end(), "\n"])
        .collect();
    if message == shown.code {
        return;
    }
    if std::env::var_os("WUJI_BLESS").is_some_and(|v| v == "1") {
        let text = page.with_code(next, &message).unwrap();
        std::fs::write(root().join(path), text).unwrap();
        return;
    }
    drop(writing);
    panic!(
        "{at}: the message differs (WUJI_BLESS=1 accepts it)\n-- the book:\n{}-- found:\n{message}",
        shown.code
    );
}
