// tools/fuzz: random graphs on every executor. --help says the rest.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <thread>

#include "tests/fuzz/lib/injected.h"
#include "tests/fuzz/lib/recipes.h"
#include "tests/fuzz/lib/session.h"

namespace reprise::fuzz {
namespace {

constexpr const char* kHelp = R"(Usage: tools/fuzz [--minutes N] [--seed S] [OPTION...]

Makes random graphs and runs each on the host, the interpreter, every Vulkan device and, now and
then, as CUDA text on the CPU, compiled in different ways. A result that differs from the host's by
more than rounding explains, an error, a crash or a hang is a finding: it is reduced to a small
graph and printed with the command that shows it again. Paste its text into tests/agreement.
docs/testing.md explains how it works.

  --minutes N     how long (default 1)
  --seed S        the first graph; each has the next number (default: by the clock, and printed)
  --count N       so many graphs, instead of a time
  --ops A,B,...   nodes of these operators and patterns only; --list shows them
  --without A,B   nothing of these
  --nodes N       most nodes of a graph (default 12)
  --jobs N        processes (default: one per core)
  --cuda-every N  every Nth graph also runs as CUDA text (default 16; 0: none)
  --no-devices    host and interpreter alone
  --onnxruntime   compare the host with ONNX Runtime, too (python3 needs: pip install onnxruntime)
  --show S        print the graph of a seed, and end
  --check FILE    check the graph in a file (-: standard input), and end
  --config TEXT   only this, for example "device=vulkan:0 disable=cse schedule=3" or
                  "device=interpreter variant=cuda:sm_90a"; can be repeated
  --reduce FILE   as --check, and make the graph smaller while it fails
  --inject NAME   inject a bug, which is to be found; --list shows them
  --out DIR       write each finding to a file there
  --list          operators, patterns and bugs to inject

Exit status: 0 when nothing was found, 1 when something was, 2 for a mistake in the arguments.
)";

struct Arguments {
  RunOptions run;
  double minutes = 1;
  bool list = false;
  std::optional<uint64_t> show;
  std::string check, out;
  bool reduce = false;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) out.push_back(word);
  return out;
}

Status parse_word(Arguments& a, const std::string& name, const std::string& value) {
  if (name == "--minutes") {
    a.minutes = std::stod(value);
  } else if (name == "--seed") {
    a.run.seed = std::stoull(value);
  } else if (name == "--count") {
    a.run.programs = std::stoll(value);
  } else if (name == "--ops") {
    a.run.generator.ops = split(value);
  } else if (name == "--without") {
    a.run.generator.without = split(value);
  } else if (name == "--nodes") {
    a.run.generator.most_nodes = std::max(3, std::stoi(value));
  } else if (name == "--jobs") {
    a.run.jobs = static_cast<unsigned>(std::max(1, std::stoi(value)));
  } else if (name == "--cuda-every") {
    a.run.cuda_every = std::stoll(value);
  } else if (name == "--show") {
    a.show = std::stoull(value);
  } else if (name == "--check" || name == "--reduce") {
    a.check = value;
    a.reduce = name == "--reduce";
  } else if (name == "--config") {
    RP_ASSIGN(Config c, Config::parse(value));
    a.run.configs.push_back(std::move(c));
  } else if (name == "--inject") {
    if (!injected_fault(value)) return {Code::Usage, "there is no bug '" + value + "' to inject"};
    a.run.fault = value;
  } else if (name == "--out") {
    a.out = value;
  } else {
    return {Code::Usage, "there is no option '" + name + "'; --help lists them"};
  }
  return {};
}

Status parse_arguments(const std::vector<std::string>& words, Arguments& a) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--list") {
      a.list = true;
    } else if (words[i] == "--no-devices") {
      a.run.devices = false;
    } else if (words[i] == "--onnxruntime") {
      a.run.onnxruntime = true;
    } else if (i + 1 == words.size()) {
      return {Code::Usage,
              "'" + words[i] + "' is not an option, or lacks its value; --help lists them"};
    } else {
      try {
        RP_TRY(parse_word(a, words[i], words[i + 1]));
      } catch (const std::exception&) {
        return {Code::Usage, words[i] + ": '" + words[i + 1] + "' is not a number"};
      }
      ++i;
    }
  }
  return {};
}

std::string text_of(const Finding& f) {
  return f.reduced.program.str() + "// " + kind_name(f.reduced.failure.kind) + " with " +
         f.reduced.failure.config.str() + ": " + f.reduced.failure.message + "\n";
}

void print(const Finding& f, const Arguments& a) {
  std::cout << "\n--- seed " << f.seed << ": " << kind_name(f.reduced.failure.kind) << "\n"
            << text_of(f) << "again:   tools/fuzz --seed " << f.seed << " --count 1";
  if (!a.run.fault.empty()) std::cout << " --inject " << a.run.fault;
  for (const Config& c : a.run.configs) std::cout << " --config \"" << c.str() << "\"";
  std::cout << "\nor save the text and run:   tools/fuzz --check FILE --config \""
            << f.reduced.failure.config.str() << "\"\n"
            << std::flush;
  if (a.out.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(a.out, ignored);
  std::ofstream(a.out + "/" + std::to_string(f.seed) + ".txt") << text_of(f);
}

int list() {
  std::cout << "operators and patterns:\n";
  for (const Source& s : sources()) std::cout << "  " << s.name << "\n";
  std::cout << "operators that are not made:\n";
  for (const auto& [op, reason] : without_source())
    std::cout << "  " << op << ": " << reason << "\n";
  std::cout << "bugs to inject:\n";
  for (const InjectedBug& b : injected_bugs())
    std::cout << "  " << b.name << ": " << b.what << "\n";
  return 0;
}

int check(const Arguments& a) {
  std::ifstream file(a.check);
  std::istream& in = a.check == "-" ? std::cin : file;
  if (!in) {
    std::cerr << "cannot read " << a.check << "\n";
    return 2;
  }
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  auto program = Program::parse(text);
  if (!program.ok()) {
    std::cerr << a.check << ": " << program.status().message() << "\n";
    return 2;
  }
  Worker worker(a.run.worker, a.run.time_limit);
  const auto ask = [&](const Program& p, const std::vector<Config>& configs) {
    Request r;
    r.text = p.str();
    r.configs = configs;
    r.fault = a.run.fault;
    r.devices = a.run.devices;
    r.onnxruntime = a.run.onnxruntime;
    return worker.ask(r).verdict;
  };
  const Verdict v = ask(*program, a.run.configs);
  for (const Failure& f : v.failures) {
    std::cout << kind_name(f.kind) << " with " << f.config.str() << ": " << f.message << "\n";
  }
  if (v.failures.empty()) std::cout << "nothing is wrong\n";
  if (!a.reduce || v.failures.empty()) return v.failures.empty() ? 0 : 1;
  const Fails fails = [&](const Program& p, const Config& c) -> std::optional<Failure> {
    const Verdict again = ask(p, {c});
    if (again.failures.empty()) return std::nullopt;
    return again.failures[0];
  };
  const Reduced r = reduce(*program, v.failures[0], fails, 120);
  std::cout << r.program.str() << "// " << r.failure.config.str() << ": " << r.failure.message
            << "\n";
  return 1;
}

int fuzz(Arguments& a) {
  if (a.run.programs == 0) a.run.seconds = a.minutes * 60;
  const bool terminal = isatty(2) != 0;
  a.run.on_finding = [&](const Finding& f) { print(f, a); };
  a.run.on_progress = [&](int64_t programs, size_t findings) {
    if (terminal) {
      std::cerr << "\r" << programs << " graphs, " << findings << " findings " << std::flush;
    }
  };
  std::cout << "seed " << a.run.seed << "\n" << std::flush;
  const RunReport report = run(a.run);
  std::cout << "\n"
            << coverage(report) << report.programs << " graphs, " << report.findings.size()
            << " findings\n";
  for (const Finding& f : report.findings) {
    std::cout << "  seed " << f.seed << ", " << f.times << " times: " << f.signature << "\n";
  }
  return report.findings.empty() ? 0 : 1;
}

int main(const std::string& program, const std::vector<std::string>& words) {
  if (words == std::vector<std::string>{"--serve"}) return serve(0, 3);
  for (const std::string& w : words) {
    if (w == "--help" || w == "-h") {
      std::cout << kHelp;
      return 0;
    }
  }
  Arguments a;
  a.run.worker = {program, "--serve"};
  a.run.seed = static_cast<uint64_t>(time(nullptr)) % 100000000;
  a.run.jobs = std::max(1U, std::thread::hardware_concurrency());
  a.run.cuda_every = 16;
  if (const Status s = parse_arguments(words, a); !s.ok()) {
    std::cerr << s.message() << "\n";
    return 2;
  }
  if (a.list) return list();
  if (a.show) {
    const auto p = generate(*a.show, a.run.generator);
    std::cout << (p.ok() ? p->str() : p.status().message() + "\n");
    return p.ok() ? 0 : 1;
  }
  return a.check.empty() ? fuzz(a) : check(a);
}

}  // namespace
}  // namespace reprise::fuzz

int main(int argc, char** argv) {
  return reprise::fuzz::main(argv[0], std::vector<std::string>(argv + 1, argv + argc));
}
