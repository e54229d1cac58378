//! The log of a world, for messages that are not errors.

use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use wuji_ir::{Error, Result};

/// Which messages are logged.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Level {
    /// Nothing.
    Off,
    /// Problems that are not errors.
    #[default]
    Warn,
    /// Slow operations: compilations and tier changes.
    Info,
    /// Every launch.
    Debug,
}

impl Level {
    const ALL: [(Level, &'static str); 4] = [
        (Level::Off, "off"),
        (Level::Warn, "warn"),
        (Level::Info, "info"),
        (Level::Debug, "debug"),
    ];

    /// The level in the environment variable `WUJI_LOG`.
    fn asked() -> Result<Option<Level>> {
        let Some(asked) = std::env::var_os("WUJI_LOG").filter(|v| !v.is_empty()) else {
            return Ok(None);
        };
        match Level::ALL.iter().find(|(_, name)| asked == *name) {
            Some((level, _)) => Ok(Some(*level)),
            None => Err(Error::new(
                "W0115",
                format!("WUJI_LOG is {asked:?}, which is not a level"),
            )
            .help("the levels are `off`, `warn`, `info` and `debug`")),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Level::ALL.iter().find(|(level, _)| level == self);
        f.write_str(name.map_or("", |n| n.1))
    }
}

/// The receiver of messages.
type Listener = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// The log of one world.
pub struct Log {
    level: AtomicU8,
    listener: RwLock<Option<Listener>>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

impl Log {
    /// Without a level, that of the environment.
    pub(crate) fn new(level: Option<Level>) -> Result<Log> {
        let level = match level {
            Some(level) => level,
            None => Level::asked()?.unwrap_or_default(),
        };
        Ok(Log {
            level: AtomicU8::new(level as u8),
            listener: RwLock::default(),
        })
    }

    /// Whether messages of a level are written.
    pub fn wants(&self, level: Level) -> bool {
        level as u8 <= self.level.load(Ordering::Relaxed)
    }

    /// Sets the least important level that is written.
    pub fn set_level(&self, level: Level) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// Passes messages to a function instead of the standard error output.
    pub fn listen(&self, listener: impl Fn(Level, &str) + Send + Sync + 'static) {
        let mut own = self
            .listener
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *own = Some(Arc::new(listener));
    }

    /// Logs a message, if the level is enabled.
    pub fn say(&self, level: Level, what: impl FnOnce() -> String) {
        if !self.wants(level) {
            return;
        }
        // Release the lock before calling the listener: it may use the world.
        let listener = self
            .listener
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match listener {
            Some(listener) => listener(level, &what()),
            // A full device behind the stream loses the message; `eprintln!` would panic.
            None => drop(writeln!(std::io::stderr(), "wuji: {level}: {}", what())),
        }
    }
}
