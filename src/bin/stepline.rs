//! The program `stepline`.

fn main() -> std::process::ExitCode {
    stepline::cli::main()
}
