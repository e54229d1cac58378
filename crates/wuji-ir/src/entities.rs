//! Entity ids. Each prints as in the text format, and indexes only one table.

use cranelift_entity::entity_impl;

macro_rules! entities {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(crate) u32);
        entity_impl!($name, $prefix);
    )*};
}

entities! {
    /// An SSA value of one function.
    Value = "v";
    /// An instruction of one function. Instructions have no id in the text.
    Inst = "i";
    /// A list of instructions with parameters and one terminator.
    Region = "r";
    /// The label of a loop or block, a target of `break` and `continue`.
    Label = "L";
    /// A local variable or local array of one function.
    Local = "l";
    /// A function of a module.
    Func = "fn";
    /// A struct type of a module.
    StructId = "s";
    /// A layout tree of a module.
    Tree = "T";
    /// A node of one layout tree.
    Node = "S";
    /// A field: a leaf of a layout tree.
    Field = "f";
    /// A host array argument.
    Array = "a";
    /// A variable that outlives one task of a launch and ends with the launch.
    Temp = "t";
    /// A format string with typed holes, of `print` and `assert`.
    Message = "m";
    /// A position in the program that can report a problem at run time.
    Site = "w";
    /// A source file.
    File = "F";
}
