use super::*;

fn operation(time: i64, [take, leave]: [i64; 2], group: u32) -> Operation {
    Operation { time, take, leave, group, block: NONE }
}

/// Two machines of two rows; operation 2 waits for 0, and 3 for 1 and 2.
fn graph(limit: i64) -> Result<Graph, GraphError> {
    let operations = vec![
        operation(10, [4, 0], 0),
        operation(20, [1, -1], 1),
        operation(30, [0, -4], 0),
        operation(40, [2, -2], 2),
    ];
    let wait = |from, to, far| Dependency { from, to, lags: [0, far] };
    let dependencies = [wait(0, 2, 0), wait(2, 3, 5), wait(1, 3, 7)];
    let machine = |row| Machine { row, limit, flush: row };
    let group = |machine, pool| Group { machine, pool };
    let groups = vec![group(0, NONE), group(1, NONE), group(1, 0)];
    Graph::new(operations, &dependencies, groups, (vec![machine(0), machine(1)], vec![vec![0, 1]]))
}

#[test]
fn operations_begin_when_inputs_and_machine_are_free() {
    let graph = graph(9).unwrap();
    let mut orders = graph.orders_by(|&number| number);
    let times = Times::of(&graph, &orders).unwrap();
    // By hand: 3 on the other machine than 2 waits for its lag, and for nothing on that of 1.
    assert_eq!(times.starts, [0, 0, 10, 45]);
    assert_eq!(times.score(&graph, &orders, Goal::Makespan), Score { cost: 85, sum: 125 });
    assert_eq!(times.score(&graph, &orders, Goal::Span), Score { cost: 85, sum: 125 });
    assert_eq!(times.latest(&graph, &orders, 85), [0, 25, 10, 45]);
    // On the machine of 2 it begins when 2 ends.
    orders.machines[2] = 0;
    orders.operations = vec![vec![0, 2, 3], vec![1]];
    let times = Times::of(&graph, &orders).unwrap();
    assert_eq!(times.starts, [0, 0, 10, 40]);
    let spans = times.spans(&graph, &orders);
    assert_eq!(spans, [Some([0, 80]), Some([0, 20])]);
}

#[test]
fn orders_without_times_have_none() {
    let graph = graph(9).unwrap();
    let with = |operations: [Vec<u32>; 2]| {
        let orders = Orders { machines: vec![0, 1, 1], operations: operations.to_vec() };
        Times::of(&graph, &orders).is_some()
    };
    assert!(with([vec![0, 2], vec![1, 3]]));
    assert!(!with([vec![2, 0], vec![1, 3]]), "2 waits for 0");
    assert!(!with([vec![0, 2], vec![3, 1]]), "3 waits for 1");
    assert!(!with([vec![0, 2], vec![1]]), "3 is missing");
    assert!(!with([vec![0, 2], vec![1, 3, 3]]) && !with([vec![0, 2, 0], vec![1]]), "twice");
}

#[test]
fn memory_is_that_of_the_order() {
    let graph = graph(4).unwrap();
    assert_eq!(graph.peak(&[0, 2, 3]), 4);
    assert_eq!(graph.peak(&[0, 3, 2]), 6);
    assert!(graph.fits(&graph.orders_by(|&number| number)));
    // The first of a group needs what all of them need, one after the other.
    assert_eq!(graph.needs(), [4, 1, 0, 2]);
}

#[test]
fn chains_and_units_are_those_of_the_times() {
    let graph = graph(9).unwrap();
    assert_eq!(graph.tails(), [80, 60, 70, 40]);
    assert_eq!(graph.in_units().1, 1, "lags of 5 and 7");
    assert_eq!(graph.total_time(), 100 + 12);
    assert_eq!(graph.movable(), [2]);
}

#[test]
fn what_is_no_graph_is_refused() {
    let machine = Machine { row: 0, limit: 1, flush: 0 };
    let make = |times: [i64; 2], dependencies: &[[u32; 2]]| {
        let operations = times.map(|time| operation(time, [0, 0], 0)).to_vec();
        let wait = |&[from, to]: &[u32; 2]| Dependency { from, to, lags: [0, 0] };
        let dependencies: Vec<Dependency> = dependencies.iter().map(wait).collect();
        let groups = vec![Group { machine: 0, pool: NONE }];
        Graph::new(operations, &dependencies, groups, (vec![machine], vec![])).map(drop)
    };
    assert_eq!(make([1, 2], &[[0, 1]]), Ok(()));
    assert_eq!(make([1, 2], &[[0, 1], [1, 0]]), Err(GraphError::Cycle));
    assert_eq!(make([1 << 61, 1 << 61], &[]), Err(GraphError::Overflow));
}
