//! The passes of the Wuji compiler and the one pipeline that orders them.
