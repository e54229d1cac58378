//! The test suite of Wuji.
