#include "tests/fuzz/lib/worker.h"

#include <sys/wait.h>

#include <cstring>
#include <sstream>

#include "tests/fuzz/lib/injected.h"

namespace reprise::fuzz {

namespace {

std::string one_line(std::string s) {
  for (char& c : s) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return s;
}

std::string str(const Request& r) {
  std::string out;
  if (r.seed) out += "seed\t" + std::to_string(*r.seed) + "\n";
  for (const std::string& op : r.generator.ops) out += "op\t" + op + "\n";
  for (const std::string& op : r.generator.without) out += "without\t" + op + "\n";
  out += "most\t" + std::to_string(r.generator.most_nodes) + "\n";
  for (const Config& c : r.configs) out += "config\t" + c.str() + "\n";
  if (r.cuda_text) out += "cuda\t1\n";
  if (!r.devices) out += "no-devices\t1\n";
  if (r.onnxruntime) out += "onnxruntime\t1\n";
  if (r.trace) out += "trace\t1\n";
  if (!r.fault.empty()) out += "fault\t" + r.fault + "\n";
  return out + "\n" + r.text;
}

Request parse_request(const std::string& text) {
  Request r;
  std::istringstream in(text);
  std::string line;
  while (std::getline(in, line) && !line.empty()) {
    const std::string key = line.substr(0, line.find('\t'));
    const std::string value = line.substr(line.find('\t') + 1);
    if (key == "seed") r.seed = std::stoull(value);
    if (key == "op") r.generator.ops.push_back(value);
    if (key == "without") r.generator.without.push_back(value);
    if (key == "most") r.generator.most_nodes = std::stoi(value);
    if (key == "cuda") r.cuda_text = true;
    if (key == "no-devices") r.devices = false;
    if (key == "onnxruntime") r.onnxruntime = true;
    if (key == "trace") r.trace = true;
    if (key == "fault") r.fault = value;
    if (key == "config") {
      if (auto c = Config::parse(value); c.ok()) r.configs.push_back(*c);
    }
  }
  r.text.assign(std::istreambuf_iterator<char>(in), {});
  return r;
}

std::string str(const std::vector<Config>& configs) {
  std::string out;
  for (const Config& c : configs) out += c.str() + "\n";
  return out;
}

std::vector<Config> parse_configs(const std::string& text) {
  std::vector<Config> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (auto c = Config::parse(line); c.ok()) out.push_back(*c);
  }
  return out;
}

std::string str(const Verdict& v) {
  std::string out;
  for (const auto& [what, n] : v.counts) out += "count\t" + std::to_string(n) + "\t" + what + "\n";
  for (const Failure& f : v.failures) {
    out += "failure\t" + std::to_string(static_cast<int>(f.kind)) + "\t" + f.config.str() + "\t" +
           one_line(f.message) + "\n";
  }
  return out;
}

Verdict parse_verdict(const std::string& text) {
  Verdict v;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> words;
    std::istringstream parts(line);
    for (std::string w; std::getline(parts, w, '\t');) words.push_back(w);
    if (words[0] == "count") v.counts[words[2]] = std::stoll(words[1]);
    if (words[0] == "failure") {
      Failure f;
      f.kind = static_cast<Failure::Kind>(std::stoi(words[1]));
      if (auto c = Config::parse(words[2]); c.ok()) f.config = *c;
      f.message = words.size() > 3 ? words[3] : "";
      v.failures.push_back(std::move(f));
    }
  }
  return v;
}

}  // namespace

int serve(int in, int out) {
  Checker checker;
  while (auto message = read_message(in)) {
    Request r = parse_request(*message);
    if (r.trace) {
      r.generator.on_attempt = [out](const Program& p) { write_message(out, "?" + p.str()); };
    }
    auto program = r.seed ? generate(*r.seed, r.generator) : Program::parse(r.text);
    write_message(out, program.ok() ? program->str() : std::string());
    Verdict v;
    if (program.ok()) {
      const std::optional<Fault> fault = injected_fault(r.fault);
      const CheckOptions options{r.configs, fault ? &*fault : nullptr, r.cuda_text, r.devices,
                                 r.onnxruntime};
      write_message(out, str(checker.choose(*program, options)));
      v = checker.check(*program, options);
    } else {
      write_message(out, std::string());
      v.count("no program: " + program.status().message());
    }
    if (!write_message(out, str(v))) break;
  }
  return 0;
}

Reply Worker::ask(const Request& request) {
  Reply reply;
  const auto failed = [&](Failure::Kind kind, const std::string& message) {
    Failure f;
    f.kind = kind;
    if (request.configs.size() == 1) f.config = request.configs[0];
    f.message = message;
    reply.verdict.failures.push_back(std::move(f));
    return reply;
  };
  if (!process_.running() && !process_.start())
    return failed(Failure::Kind::Crash, "cannot start " + process_.program());
  bool hung = false;
  process_.send(str(request));
  auto text = process_.receive(hung);
  for (; text && text->rfind('?', 0) == 0; text = process_.receive(hung))
    reply.text = text->substr(1);
  std::optional<std::string> verdict;
  if (text) {
    reply.text = *text;
    if (const auto configs = process_.receive(hung)) reply.configs = parse_configs(*configs);
    verdict = process_.receive(hung);
  }
  if (verdict) {
    reply.verdict = parse_verdict(*verdict);
    return reply;
  }
  if (hung) {
    process_.stop();
    return failed(Failure::Kind::Hang,
                  "no answer for " + std::to_string(static_cast<int>(process_.seconds())) + " s");
  }
  const int status = process_.wait();
  return failed(Failure::Kind::Crash, WIFSIGNALED(status)
                                          ? "signal " + std::to_string(WTERMSIG(status)) + " (" +
                                                strsignal(WTERMSIG(status)) + ")"
                                          : "exit status " + std::to_string(WEXITSTATUS(status)));
}

}  // namespace reprise::fuzz
