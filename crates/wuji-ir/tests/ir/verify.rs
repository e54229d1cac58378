//! The verifier rejects malformed modules that have no textual form, and never panics.
//! Those with a textual form are in `tests/filetests/verify`.

use wuji_ir::entities::*;
use wuji_ir::format::Format;
use wuji_ir::layout::{Child, NodeKind};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::text::parse;
use wuji_ir::types::{I32, Scalar, Type};
use wuji_ir::verify::verify;

const SOUND: &str = r#"
struct s0 "pair" { 0: f32, 1: f32 }
tree T0 {
  dense S1 [i: 4] { place f0 }
}
field f0 "x": f32 in T0.S1 (i)
array a0 "a": f32 rank 1 writable
temp t0: f32
message m0 "{f32}"
param p0 "n": i32
site w0 out_of_range f0
fn fn0 "f"(v0: i32) -> i32 {
  local l0: i32
  v1: i32 = loop L0 (v2: i32 = v0) {
    break L0 (v2)
  }
  v3: i32 = add v1, v1
  v4: f32 = load f0[v0]
  return v3
}
kernel fn1 "k"(v0: i32) {
  return
}
"#;

fn f(m: &mut Module) -> &mut Function {
    &mut m.funcs[Func::from_u32(0)]
}

/// The error that a change of the valid module causes.
fn broken(change: impl FnOnce(&mut Module)) -> String {
    let mut m = parse(SOUND, "sound.wir").unwrap();
    verify(&m).unwrap();
    change(&mut m);
    let error = verify(&m).expect_err("the changed module is still valid");
    // An invalid module can be printed and compacted.
    let _ = (m.to_string(), m.compacted().to_string(), error.to_string());
    error.code.to_owned()
}

/// The instruction with a given operation name in the printed function.
fn find(f: &Function, is: impl Fn(&Op) -> bool) -> Inst {
    f.insts.keys().find(|i| is(&f.insts[*i].op)).unwrap()
}

#[test]
fn dangling_ids() {
    let far = 1_000_000;
    let ops = [
        Op::Load(Access::read(Place::Field(Field::from_u32(far)))),
        Op::Load(Access::read(Place::Array(Array::from_u32(far)))),
        Op::Load(Access::read(Place::Local(Local::from_u32(far)))),
        Op::Load(Access::read(Place::Temp(Temp::from_u32(far)))),
        Op::ArrayExtent(Array::from_u32(far), 0),
        Op::MemLoad(Space::Tree(Tree::from_u32(far), Field::from_u32(0)), I32),
        Op::MemLoad(Space::Tree(Tree::from_u32(0), Field::from_u32(far)), I32),
        Op::MemLoad(Space::Array(Array::from_u32(far)), I32),
        Op::Compose(Type::Struct(StructId::from_u32(far))),
        Op::Splat(Type::Vector(Scalar::F32, 0)),
        Op::Splat(Type::Matrix(Scalar::F32, 300, 300)),
        Op::Call(Func::from_u32(far)),
        Op::Print(Message::from_u32(far)),
        Op::Report(Site::from_u32(far)),
        Op::ForEach(
            Label::from_u32(0),
            Domain::Field(Field::from_u32(far)),
            LoopHints::default(),
        ),
    ];
    for op in ops {
        let code = broken(|m| {
            let add = find(f(m), |o| *o == Op::Binary(BinOp::Add));
            f(m).insts[add].op = op.clone();
        });
        assert_eq!(code, "W0020", "{op:?}");
    }
    let codes = [
        broken(|m| f(m).entry = Region::from_u32(far)),
        broken(|m| f(m).regions[Region::from_u32(0)].params[0] = Value::from_u32(far)),
        broken(|m| {
            f(m).regions[Region::from_u32(0)]
                .insts
                .push(Inst::from_u32(far))
        }),
        broken(|m| f(m).insts[Inst::from_u32(0)].regions[0] = Region::from_u32(far)),
        broken(|m| f(m).insts[Inst::from_u32(0)].results[0] = Value::from_u32(far)),
        broken(|m| m.kernel = Some(Func::from_u32(far))),
        broken(|m| m.result = Some(Temp::from_u32(far))),
        broken(|m| m.sites[Site::from_u32(0)].kind = SiteKind::TooDeep(Func::from_u32(far))),
        broken(|m| m.sites[Site::from_u32(0)].kind = SiteKind::Assert(Message::from_u32(far))),
        broken(|m| {
            let place = Place::Field(Field::from_u32(far));
            m.sites[Site::from_u32(0)].kind = SiteKind::OutOfRange(place);
        }),
        broken(|m| {
            m.kernel = None;
            m.tasks.push(Task {
                flow: TaskFlow::default(),
                lists: None,
                slices: Vec::new(),
                copies: Copies::None,
                name: "t".into(),
                kind: TaskKind::Serial,
                func: Func::from_u32(far),
                ordinal: 0,
                span: Span::UNKNOWN,
            });
        }),
        broken(|m| {
            m.kernel = None;
            m.tasks.push(Task {
                flow: TaskFlow::default(),
                lists: None,
                slices: Vec::new(),
                copies: Copies::None,
                name: "t".into(),
                kind: TaskKind::Cells {
                    field: Field::from_u32(far),
                    hints: LoopHints::default(),
                },
                func: Func::from_u32(1),
                ordinal: 0,
                span: Span::UNKNOWN,
            });
        }),
        broken(|m| {
            let dims = vec![RangeDim::new(
                Bound::Param(far),
                Bound::Temp(Temp::from_u32(far)),
            )];
            m.kernel = None;
            m.tasks.push(Task {
                flow: TaskFlow::default(),
                lists: None,
                slices: Vec::new(),
                copies: Copies::None,
                name: "t".into(),
                kind: TaskKind::Range {
                    dims,
                    hints: LoopHints::default(),
                },
                func: Func::from_u32(1),
                ordinal: 0,
                span: Span::UNKNOWN,
            });
        }),
    ];
    assert_eq!(codes, ["W0020"; 13]);
    let undefined_arg = broken(|m| f(m).insts[Inst::from_u32(0)].args[0] = Value::from_u32(far));
    assert_eq!(undefined_arg, "W0025");
}

#[test]
fn types_that_do_not_exist() {
    let ghost = Type::Struct(StructId::from_u32(77));
    let empty = Type::Matrix(Scalar::F32, 0, 3);
    let huge = Type::Matrix(Scalar::F32, 300, 300);
    for ty in [ghost, empty, huge] {
        let codes = [
            broken(|m| m.fields[Field::from_u32(0)].elem = ty),
            broken(|m| m.arrays[Array::from_u32(0)].elem = ty),
            broken(|m| m.temps[Temp::from_u32(0)].ty = ty),
            broken(|m| m.params[0].ty = ty),
            broken(|m| {
                let format = Format::default();
                m.messages[Message::from_u32(0)].pieces[0] = Piece::Hole { ty, format };
            }),
            broken(|m| m.structs.0[StructId::from_u32(0)].fields[0].1 = ty),
            broken(|m| f(m).results[0] = ty),
            broken(|m| f(m).locals[Local::from_u32(0)].ty = ty),
            broken(|m| f(m).values[Value::from_u32(0)].ty = ty),
            broken(|m| f(m).values[Value::from_u32(1)].ty = ty),
        ];
        assert_eq!(codes, ["W0021"; 10], "{ty}");
    }
    // A struct that contains itself.
    let own = Type::Struct(StructId::from_u32(0));
    let code = broken(|m| m.structs.0[StructId::from_u32(0)].fields[0].1 = own);
    assert_eq!(code, "W0021");
}

#[test]
fn instructions_and_regions_belong_to_one_place() {
    let twice = broken(|m| {
        f(m).regions[Region::from_u32(0)]
            .insts
            .push(Inst::from_u32(0))
    });
    assert_eq!(twice, "W0025");
    let shared = broken(|m| f(m).insts[Inst::from_u32(0)].regions[0] = Region::from_u32(0));
    assert_eq!(shared, "W0032");
    let extra = broken(|m| {
        let add = find(f(m), |o| *o == Op::Binary(BinOp::Add));
        let region = f(m).add_region(&[]);
        f(m).insts[add].regions.push(region);
    });
    assert_eq!(extra, "W0032");
    let missing = broken(|m| f(m).insts[Inst::from_u32(0)].regions.clear());
    assert_eq!(missing, "W0032");
    let def = broken(|m| {
        f(m).values[Value::from_u32(1)].def = ValueDef::Param(Region::from_u32(0), 0);
    });
    assert_eq!(def, "W0025");
}

#[test]
fn labels_belong_to_one_loop() {
    let unnumbered = broken(|m| f(m).labels = 0);
    assert_eq!(unnumbered, "W0030");
    let twice = broken(|m| {
        let add = find(f(m), |o| *o == Op::Binary(BinOp::Add));
        let region = f(m).add_region(&[]);
        f(m).regions[region].term = Term::Yield(Values::new());
        let data = &mut f(m).insts[add];
        data.op = Op::Block(Label::from_u32(0));
        data.args.clear();
        data.results.clear();
        data.regions.push(region);
    });
    assert_eq!(twice, "W0030");
}

#[test]
fn nesting_is_limited() {
    let code = broken(|m| {
        let f = f(m);
        let mut region = f.entry;
        for _ in 0..100_000 {
            let label = f.fresh_label();
            let inst = f.add_inst(Op::Block(label), Values::new(), &[], Span::UNKNOWN);
            let inner = f.add_region(&[]);
            f.regions[inner].term = Term::Yield(Values::new());
            f.insts[inst].regions.push(inner);
            f.regions[region].insts.push(inst);
            region = inner;
        }
    });
    assert_eq!(code, "W0006");
}

#[test]
fn trees_are_trees() {
    let tree = Tree::from_u32(0);
    let (root, node) = (Node::from_u32(0), Node::from_u32(1));
    let codes = [
        broken(|m| m.trees[tree].nodes[node].parent = Some(node)),
        broken(|m| m.trees[tree].nodes[node].parent = None),
        broken(|m| m.trees[tree].nodes[node].kind = NodeKind::Root),
        broken(|m| m.trees[tree].nodes[root].children.clear()),
        broken(|m| m.trees[tree].nodes[root].children.push(Child::Node(node))),
        broken(|m| m.trees[tree].nodes[node].children.push(Child::Node(root))),
        broken(|m| {
            let ghost = Child::Place(Field::from_u32(9));
            m.trees[tree].nodes[node].children.push(ghost);
        }),
        broken(|m| m.trees[tree].nodes.clear()),
        broken(|m| {
            let extents = m.trees[tree].nodes[node].extents.clone();
            m.trees[tree].nodes[root].extents = extents;
        }),
    ];
    assert_eq!(codes, ["W0022"; 9]);
    let lost = [
        broken(|m| m.fields[Field::from_u32(0)].tree = Tree::from_u32(5)),
        broken(|m| m.fields[Field::from_u32(0)].node = Node::from_u32(5)),
    ];
    assert_eq!(lost, ["W0023"; 2]);
    assert_eq!(broken(|m| m.arrays[Array::from_u32(0)].rank = 9), "W0024");
}
