//! Reading `; run:` lines.
