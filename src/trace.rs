pub fn write(_: &mut dyn std::io::Write, _: &str, _: &pipeline::Timeline) -> std::io::Result<()> {
    Ok(())
}
