//! PLY files: a header in text, then elements with their properties, in binary or in text.

use super::mesh::Mesh;
use super::stream::{Input, Output};
use crate::lang::vec3;
use std::path::Path;
use wuji_ir::Result;

const KIND: &str = "PLY";

/// A line of a header or of numbers is no longer than this.
const LINE: usize = 1 << 20;

/// Names that attributes cannot have: those of other properties, and of theirs in VTK files.
pub(super) const RESERVED: [&str; 12] = [
    "x", "y", "z", "nx", "ny", "nz", "red", "green", "blue", "Normals", "Colors", "Points",
];

/// A color as a byte.
fn to_byte(c: f32) -> u8 {
    // Saturates, and makes 0 of NaN.
    (c * 255.0 + 0.5) as u8
}

impl Mesh {
    pub(super) fn write_ply(&self, path: &Path, text: bool) -> Result<()> {
        self.check()?;
        let mut output = Output::create(path)?;
        output.put(self.header(text))?;
        for k in 0..self.positions.len() {
            let mut line = Line::new(text);
            self.positions[k].0.iter().for_each(|c| line.float(*c));
            if let Some(normal) = self.normals.get(k) {
                normal.0.iter().for_each(|c| line.float(*c));
            }
            if let Some(color) = self.colors.get(k) {
                color.0.iter().for_each(|c| line.byte(to_byte(*c)));
            }
            for (_, values) in &self.attributes {
                line.float(values[k]);
            }
            output.put(line.end())?;
        }
        for triangle in &self.triangles {
            let mut line = Line::new(text);
            line.byte(3);
            triangle.iter().for_each(|k| line.int(*k));
            output.put(line.end())?;
        }
        output.finish()
    }

    fn header(&self, text: bool) -> String {
        let format = if text {
            "ascii"
        } else {
            "binary_little_endian"
        };
        let mut header = format!("ply\nformat {format} 1.0\n");
        let mut property = |ty: &str, name: &str| header += &format!("property {ty} {name}\n");
        let mut properties = vec![("float", "x"), ("float", "y"), ("float", "z")];
        if !self.normals.is_empty() {
            properties.extend([("float", "nx"), ("float", "ny"), ("float", "nz")]);
        }
        if !self.colors.is_empty() {
            properties.extend([("uchar", "red"), ("uchar", "green"), ("uchar", "blue")]);
        }
        properties.extend(
            self.attributes
                .iter()
                .map(|(name, _)| ("float", name.as_str())),
        );
        properties.iter().for_each(|(ty, name)| property(ty, name));
        let vertices = format!("element vertex {}\n", self.positions.len());
        let at = header.find("property").unwrap_or(header.len());
        header.insert_str(at, &vertices);
        if !self.triangles.is_empty() {
            let count = self.triangles.len();
            header += &format!("element face {count}\nproperty list uchar uint vertex_indices\n");
        }
        header + "end_header\n"
    }

    pub(super) fn read_ply(path: &Path) -> Result<Mesh> {
        let mut input = Input::open(path)?;
        let header = Header::read(&mut input)?;
        let mut mesh = Mesh::default();
        for element in &header.elements {
            match element.name.as_str() {
                "vertex" => mesh.read_vertices(&mut input, &header, element)?,
                "face" => mesh.read_faces(&mut input, &header, element)?,
                _ => (0..element.count)
                    .try_for_each(|_| element.read(&mut input, header.format).map(|_| ()))?,
            }
        }
        let n = mesh.positions.len();
        let outside = |t: &&[u32; 3]| t.iter().any(|k| *k as usize >= n);
        if let Some(t) = mesh.triangles.iter().find(outside) {
            let why = format!("it has {n} points, and a face with the corners {t:?}");
            return Err(input.damaged(KIND, why));
        }
        Ok(mesh)
    }

    fn read_vertices(
        &mut self,
        input: &mut Input,
        header: &Header,
        element: &PlyElement,
    ) -> Result<()> {
        let place = |name: &str| element.properties.iter().position(|p| p.name == name);
        let three = |names: [&str; 3]| -> Option<[usize; 3]> {
            Some([place(names[0])?, place(names[1])?, place(names[2])?])
        };
        let Some(at) = three(["x", "y", "z"]) else {
            return Err(input.damaged(KIND, "its vertices have no `x`, `y` and `z`"));
        };
        let (normal, color) = (three(["nx", "ny", "nz"]), three(["red", "green", "blue"]));
        let bytes = color.is_some_and(|[r, ..]| element.properties[r].ty.is_byte());
        let scale = if bytes { 1.0 / 255.0 } else { 1.0 };
        let others: Vec<usize> = (0..element.properties.len())
            .filter(|k| element.properties[*k].count.is_none())
            .filter(|k| !RESERVED.contains(&element.properties[*k].name.as_str()))
            .collect();
        for k in &others {
            let name = element.properties[*k].name.clone();
            self.attributes.push((name, Vec::new()));
        }
        for _ in 0..element.count {
            let row = element.read(input, header.format)?;
            let number = |k: usize| row[k].first().copied().unwrap_or(0.0) as f32;
            let vector = |[x, y, z]: [usize; 3]| vec3(number(x), number(y), number(z));
            self.positions.push(vector(at));
            self.normals.extend(normal.map(vector));
            self.colors.extend(color.map(|c| vector(c) * scale));
            for ((_, values), k) in self.attributes.iter_mut().zip(&others) {
                values.push(number(*k));
            }
        }
        Ok(())
    }

    /// Polygons become fans of triangles.
    fn read_faces(
        &mut self,
        input: &mut Input,
        header: &Header,
        element: &PlyElement,
    ) -> Result<()> {
        let names = ["vertex_indices", "vertex_index"];
        let list = element
            .properties
            .iter()
            .position(|p| names.contains(&p.name.as_str()));
        for _ in 0..element.count {
            let row = element.read(input, header.format)?;
            let Some(corners) = list.map(|k| &row[k]) else {
                continue;
            };
            let whole = |c: &f64| c.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(c);
            if !corners.iter().all(whole) {
                return Err(
                    input.damaged(KIND, format!("it has a face with the corners {corners:?}"))
                );
            }
            let corners: Vec<u32> = corners.iter().map(|c| *c as u32).collect();
            for pair in corners.windows(2).skip(1) {
                self.triangles.push([corners[0], pair[0], pair[1]]);
            }
        }
        Ok(())
    }
}

/// The numbers of one element.
struct Line {
    text: bool,
    bytes: Vec<u8>,
}

impl Line {
    fn new(text: bool) -> Line {
        Line {
            text,
            bytes: Vec::new(),
        }
    }

    fn number(&mut self, text: impl ToString, bytes: &[u8]) {
        if self.text {
            let separator = if self.bytes.is_empty() { "" } else { " " };
            self.bytes.extend(separator.bytes());
            self.bytes.extend(text.to_string().bytes());
        } else {
            self.bytes.extend(bytes);
        }
    }

    fn float(&mut self, x: f32) {
        self.number(x, &x.to_le_bytes());
    }

    fn byte(&mut self, x: u8) {
        self.number(x, &[x]);
    }

    fn int(&mut self, x: u32) {
        self.number(x, &x.to_le_bytes());
    }

    fn end(mut self) -> Vec<u8> {
        if self.text {
            self.bytes.push(b'\n');
        }
        self.bytes
    }
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Format {
    Text,
    LittleEndian,
    BigEndian,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Number {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    F32,
    F64,
}

impl Number {
    fn of(name: &str) -> Option<Number> {
        Some(match name {
            "char" | "int8" => Number::I8,
            "uchar" | "uint8" => Number::U8,
            "short" | "int16" => Number::I16,
            "ushort" | "uint16" => Number::U16,
            "int" | "int32" => Number::I32,
            "uint" | "uint32" => Number::U32,
            "float" | "float32" => Number::F32,
            "double" | "float64" => Number::F64,
            _ => return None,
        })
    }

    fn is_byte(self) -> bool {
        matches!(self, Number::I8 | Number::U8)
    }

    fn size(self) -> usize {
        match self {
            Number::I8 | Number::U8 => 1,
            Number::I16 | Number::U16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::F64 => 8,
        }
    }

    /// From bytes in the order of this machine.
    fn value(self, b: [u8; 8]) -> f64 {
        match self {
            Number::I8 => f64::from(b[0] as i8),
            Number::U8 => f64::from(b[0]),
            Number::I16 => f64::from(i16::from_le_bytes([b[0], b[1]])),
            Number::U16 => f64::from(u16::from_le_bytes([b[0], b[1]])),
            Number::I32 => f64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            Number::U32 => f64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            Number::F32 => f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            Number::F64 => f64::from_le_bytes(b),
        }
    }

    fn read(self, input: &mut Input, format: Format) -> Result<f64> {
        let mut bytes = [0; 8];
        let own = &mut bytes[..self.size()];
        input.take(KIND, own)?;
        if format == Format::BigEndian {
            own.reverse();
        }
        Ok(self.value(bytes))
    }
}

struct Property {
    name: String,
    ty: Number,
    /// The type of the number of items, if it is a list.
    count: Option<Number>,
}

struct PlyElement {
    name: String,
    count: u64,
    properties: Vec<Property>,
}

impl PlyElement {
    /// One element: the numbers of each property.
    fn read(&self, input: &mut Input, format: Format) -> Result<Vec<Vec<f64>>> {
        if format == Format::Text {
            return self.read_text(input);
        }
        let mut row = Vec::with_capacity(self.properties.len());
        for property in &self.properties {
            let count = match property.count {
                Some(count) => count.read(input, format)?,
                None => 1.0,
            };
            // Each takes a byte at least.
            if count < 0.0 || count > input.left() as f64 {
                return Err(input.damaged(KIND, format!("it has a list of {count} numbers")));
            }
            let numbers = (0..count as u64).map(|_| property.ty.read(input, format));
            row.push(numbers.collect::<Result<_>>()?);
        }
        Ok(row)
    }

    fn read_text(&self, input: &mut Input) -> Result<Vec<Vec<f64>>> {
        let line = input.line(KIND, LINE)?;
        let mut numbers = line.split_ascii_whitespace().map(|n| n.parse::<f64>().ok());
        let mut next = || numbers.next().flatten();
        let mut row = Vec::with_capacity(self.properties.len());
        for property in &self.properties {
            let count = match property.count {
                Some(_) => next().filter(|n| (0.0..=LINE as f64).contains(n)),
                None => Some(1.0),
            };
            let own =
                count.and_then(|n| (0..n as u64).map(|_| next()).collect::<Option<Vec<f64>>>());
            match own {
                Some(own) => row.push(own),
                None => {
                    let shown: String = line.chars().take(60).collect();
                    let why = format!("a line of `{}` lacks numbers: {shown}", self.name);
                    return Err(input.damaged(KIND, why));
                }
            }
        }
        Ok(row)
    }
}

struct Header {
    format: Format,
    elements: Vec<PlyElement>,
}

impl Header {
    fn read(input: &mut Input) -> Result<Header> {
        if input.line(KIND, 1000).ok().as_deref() != Some("ply") {
            return Err(input.damaged(KIND, "it does not start with the line `ply`"));
        }
        let mut format = None;
        let mut elements: Vec<PlyElement> = Vec::new();
        loop {
            let line = input.line(KIND, LINE)?;
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let understood = match &words[..] {
                ["end_header"] => break,
                ["comment" | "obj_info", ..] | [] => true,
                ["format", name, "1.0"] => {
                    format = match *name {
                        "ascii" => Some(Format::Text),
                        "binary_little_endian" => Some(Format::LittleEndian),
                        "binary_big_endian" => Some(Format::BigEndian),
                        _ => None,
                    };
                    format.is_some()
                }
                ["element", name, count] => count.parse().is_ok_and(|count| {
                    elements.push(PlyElement {
                        name: (*name).to_owned(),
                        count,
                        properties: Vec::new(),
                    });
                    true
                }),
                ["property", rest @ ..] => elements
                    .last_mut()
                    .zip(property(rest))
                    .map(|(element, own)| element.properties.push(own))
                    .is_some(),
                _ => false,
            };
            if !understood {
                let shown: String = line.chars().take(60).collect();
                return Err(input.damaged(
                    KIND,
                    format!("a line of its header is not understood: {shown}"),
                ));
            }
        }
        if let Some(empty) = elements
            .iter()
            .find(|e| e.properties.is_empty() && e.count > 0)
        {
            let why = format!("its element `{}` has no properties", empty.name);
            return Err(input.damaged(KIND, why));
        }
        match format {
            Some(format) => Ok(Header { format, elements }),
            None => Err(input.damaged(KIND, "its header has no line `format`")),
        }
    }
}

fn property(words: &[&str]) -> Option<Property> {
    let (count, ty, name) = match words {
        ["list", count, ty, name] => (Some(Number::of(count)?), ty, name),
        [ty, name] => (None, ty, name),
        _ => return None,
    };
    Some(Property {
        name: (*name).to_owned(),
        ty: Number::of(ty)?,
        count,
    })
}
