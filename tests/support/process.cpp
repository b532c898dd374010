#include "tests/support/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "tests/support/paths.h"

namespace reprise::test {

namespace {

[[noreturn]] void exec_child(const std::vector<std::string>& argv,
                             const std::vector<std::string>& environment, const char* out,
                             const char* err) {
  const int out_fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int err_fd = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int in_fd = open("/dev/null", O_RDONLY);
  if (out_fd < 0 || err_fd < 0 || in_fd < 0) _exit(126);
  dup2(in_fd, 0);
  dup2(out_fd, 1);
  dup2(err_fd, 2);
  for (const std::string& entry : environment) putenv(const_cast<char*>(entry.c_str()));
  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  execv(args[0], args.data());
  _exit(127);
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv,
                          const std::vector<std::string>& environment) {
  TempDir dir;
  const std::string out = dir / "out";
  const std::string err = dir / "err";
  ProcessResult result;
  const pid_t child = fork();
  if (child < 0) return result;
  if (child == 0) exec_child(argv, environment, out.c_str(), err.c_str());
  int status = 0;
  if (waitpid(child, &status, 0) == child) {
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  result.out = read_file(out);
  result.err = read_file(err);
  return result;
}

size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

}  // namespace reprise::test
