use serde_json::{Value, json};

use pipeline::Nanos;

use crate::{Form, Operation, Reader, Run, Times, Trace, TraceError};

/// Number of a thread of process `pid`, as Nsight Systems packs it.
fn tid(pid: u64) -> String {
    ((1u64 << 48) | (pid << 24) | pid).to_string()
}

fn range(pid: u64, text: &str, [start, end]: [u64; 2]) -> Value {
    json!({"Type": 59, "NvtxEvent": {"Type": 59, "Timestamp": start.to_string(), "Text": text,
        "GlobalTid": tid(pid), "EndTimestamp": end.to_string(), "DomainId": "0", "NsTime": true}})
}

/// The call that launches a kernel, and the kernel; `name` is its number in the table.
fn kernel(pid: u64, correlation: u64, call: u64, [start, end]: [u64; 2], name: u64) -> [Value; 2] {
    let process = ((1u64 << 48) | (pid << 24)).to_string();
    [
        json!({"Type": 48, "TraceProcessEvent": {"startNs": call.to_string(), "endNs": (call + 1).to_string(),
            "correlationId": correlation, "eventClass": 1, "name": "0", "returnValue32": 0, "globalTid": tid(pid)}}),
        json!({"Type": 79, "CudaEvent": {"startNs": start.to_string(), "endNs": end.to_string(),
            "correlationId": correlation, "deviceId": 0, "contextId": "1", "streamId": "7", "eventClass": 3,
            "globalPid": process, "kernel": {"demangledName": name.to_string(), "shortName": name.to_string()}}}),
    ]
}

fn table() -> Value {
    json!({"data": ["cudaLaunchKernel", "gemm", "ncclDevKernel_SendRecv"]})
}

/// Two stages that run a microbatch: the host names a pass while its kernels wait in a queue.
fn step() -> Vec<Value> {
    let mut lines = vec![table(), json!({"Type": 27, "CommEvent": {"Commname": "python"}})];
    let passes = [
        (7, "PP:0F0", [100, 200], [1_000, 11_000]),
        (8, "PP:1F0, op_id = 12", [100, 200], [12_000, 22_000]),
        (8, "PP:1B0", [300, 400], [22_000, 42_000]),
        (7, "PP:0B0", [300, 400], [43_000, 63_000]),
    ];
    for (correlation, (pid, name, host, device)) in (1..).zip(passes) {
        lines.push(range(pid, name, host));
        let middle = [device[0] + 4_000, device[1]];
        lines.extend(kernel(
            pid,
            10 * correlation,
            host[0] + 10,
            [device[0], device[0] + 3_000],
            1,
        ));
        lines.extend(kernel(pid, 10 * correlation + 1, host[0] + 20, middle, 1));
        // A message that ends later, of the same range.
        let message = [device[1], device[1] + 50_000];
        lines.extend(kernel(pid, 10 * correlation + 2, host[0] + 30, message, 2));
    }
    lines
}

fn text(lines: &[Value]) -> Vec<u8> {
    lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n").into_bytes()
}

fn refused(lines: &[Value]) -> String {
    crate::read(text(lines)).expect_err("it is refused").to_string()
}

fn times(trace: &Trace) -> Vec<(String, u16, u64, u64)> {
    let of = |one: &Operation| (one.to_string(), one.stage, one.start.0, one.duration.0);
    trace.operations.iter().map(of).collect()
}

#[test]
fn passes_take_the_time_of_their_kernels() {
    let trace = crate::read(text(&step())).unwrap();
    assert_eq!(trace.form, Form::Nsys);
    let expected = [
        ("F0.0".to_owned(), 0, 1_000, 10_000),
        ("BW0.0".to_owned(), 0, 43_000, 20_000),
        ("F1.0".to_owned(), 1, 12_000, 10_000),
        ("BW1.0".to_owned(), 1, 22_000, 20_000),
    ];
    assert_eq!(times(&trace), expected);
    let run = Run::new(trace).unwrap();
    assert_eq!(run.steps()[0].measured(), Nanos(62_000));
    assert_eq!(run.predict(&Times::measured(&run)), [Nanos(62_000)]);
}

#[test]
fn ranges_alone_are_times_of_the_host() {
    let lines: Vec<Value> =
        step().into_iter().filter(|line| line.get("CudaEvent").is_none()).collect();
    let trace = crate::read(text(&lines)).unwrap();
    assert_eq!(times(&trace)[0], ("F0.0".to_owned(), 0, 100, 100));
    // A name may stand in the table, and the table may be all that tells the form.
    let mut named = range(7, "", [100, 200]);
    named["NvtxEvent"].as_object_mut().unwrap().remove("Text");
    named["NvtxEvent"]["TextId"] = json!("1");
    let back = range(7, "PP:0B0", [300, 400]);
    let trace = crate::read(text(&[json!({"data": ["", "PP:0F0"]}), named, back])).unwrap();
    assert_eq!(trace.operations.len(), 2);
}

#[test]
fn what_is_missing_is_named_with_its_cure() {
    let without = |key: &str| -> Vec<Value> {
        step().into_iter().filter(|line| line.get(key).is_none()).collect()
    };
    let error = refused(&without("NvtxEvent"));
    assert!(
        error.contains("without NVTX ranges") && error.contains("--trace=cuda,nvtx"),
        "{error}"
    );
    let error = refused(&without("TraceProcessEvent"));
    assert!(error.contains("no calls that launch them"), "{error}");
    let error = refused(&without("data"));
    assert!(
        error.starts_with("line 4 names text 1") && error.contains("--separate-strings"),
        "{error}"
    );
    let mut graph = step();
    graph.push(range(7, "PP:0F1", [500, 600]));
    let error = refused(&graph);
    assert!(error.starts_with("line 31: the pass PP:0F1 launches no kernel"), "{error}");
    let mut long = step();
    long.push(json!({"Type": 27, "CommEvent": " ".repeat(2 << 20)}));
    let error = refused(&long);
    assert!(
        error.starts_with("line 31 has 2097") && error.contains("export the report again"),
        "{error}"
    );
    let mut cut = text(&step());
    cut.truncate(cut.len() - 9);
    let error = crate::read(cut).expect_err("it is cut").to_string();
    assert!(error.starts_with("line 30: EOF"), "{error}");
    let mut absent = step();
    absent[2]["NvtxEvent"].as_object_mut().unwrap().remove("GlobalTid");
    assert_eq!(refused(&absent), "line 3 has no GlobalTid");
    let mut reader = Reader::within(u64::MAX);
    reader.add(text(&step())).unwrap();
    let error = reader.add(text(&step())).expect_err("times differ");
    assert!(
        matches!(error, TraceError::Nsys(_)) && error.to_string().contains("in one"),
        "{error}"
    );
}
