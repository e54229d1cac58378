//! Wuji IR to machine code through LLVM.
