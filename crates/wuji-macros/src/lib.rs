//! The #[kernel] and #[func] macros of Wuji.
