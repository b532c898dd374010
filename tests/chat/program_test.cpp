// reprise-chat as users run it, with pipes in place of a terminal.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <regex>
#include <sstream>

#include "apps/generate/language_model.h"
#include "tests/chat/tiny_model.h"
#include "tests/support/process.h"

namespace reprise {
namespace {

using test::ProcessResult;

class ChatProgram : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<test::TempDir>();
    test::write_tiny_chat_model(*folder_ / "model");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) { return (*folder_ / name).string(); }
  static std::vector<std::string> environment() { return {"XDG_CACHE_HOME=" + path("cache")}; }

  /// Runs a shell script in which "$@" is the program with its arguments.
  static ProcessResult shell(const std::string& script, const std::vector<std::string>& options) {
    std::vector<std::string> argv{
        "/bin/sh",     "-c",       script, "sh", test::program("reprise-chat").string(),
        path("model"), "--device", "host"};
    argv.insert(argv.end(), options.begin(), options.end());
    return test::run_process(argv, environment());
  }

  /// The program with these lines as its input.
  static ProcessResult chat(const std::string& input,
                            const std::vector<std::string>& options = {"--max-tokens", "6"}) {
    test::write_file(*folder_ / "input", input);
    return shell("exec \"$@\" <'" + path("input") + "'", options);
  }

  static std::unique_ptr<test::TempDir> folder_;
};
std::unique_ptr<test::TempDir> ChatProgram::folder_;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

struct Counts {
  int new_tokens, prompt_tokens;
};

/// Of each answer.
std::vector<Counts> counts_of(const std::string& err) {
  static const std::regex pattern("; the first after [0-9]+ ms; ([0-9]+) of ([0-9]+) tokens");
  std::vector<Counts> out;
  for (std::sregex_iterator at(err.begin(), err.end(), pattern), end; at != end; ++at)
    out.push_back({std::stoi((*at)[1]), std::stoi((*at)[2])});
  return out;
}

TEST_F(ChatProgram, AnswersAsGenerateDoes) {
  const ProcessResult r = chat("hello\n");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.err.find("tokens/s"), std::string::npos) << r.err;
  const ProcessResult once =
      test::run_process({test::program("reprise").string(), "generate", path("model"), "--chat",
                         "--prompt", "hello", "--max-tokens", "6", "--device", "host"},
                        environment());
  ASSERT_EQ(once.status, 0) << once.err;
  EXPECT_EQ(r.out, once.out);
  EXPECT_GT(r.out.size(), 1U);
}

/// What is said again is not computed again, and the answer is that to the whole conversation.
TEST_F(ChatProgram, ReadsOnlyWhatIsNew) {
  const ProcessResult r = chat("hello\nand more\n");
  ASSERT_EQ(r.status, 0) << r.err;
  const std::vector<std::string> answers = lines_of(r.out);
  const std::vector<Counts> counts = counts_of(r.err);
  ASSERT_EQ(answers.size(), 2U) << r.out;
  ASSERT_EQ(counts.size(), 2U) << r.err;
  EXPECT_EQ(counts[0].new_tokens, 7);
  EXPECT_EQ(counts[0].prompt_tokens, 7);
  // The last token of the answer, its end, the message between two tokens.
  EXPECT_EQ(counts[1].new_tokens, 1 + 1 + 1 + 8 + 1) << r.err;
  EXPECT_EQ(counts[1].prompt_tokens, 7 + 6 + 1 + 1 + 8 + 1);
  const ProcessResult whole =
      test::run_process({test::program("reprise").string(), "generate", path("model"), "--prompt",
                         "<|user|>hello<|model|>" + answers[0] + "</s><|user|>and more<|model|>",
                         "--max-tokens", "6", "--device", "host"},
                        environment());
  EXPECT_EQ(answers[1] + "\n", whole.out) << whole.err;
}

TEST_F(ChatProgram, ConversationsDoNotDisturbEachOther) {
  const ProcessResult r = chat(
      "hello\n/fork\nand more\n/switch 1\nsomething else\n/new\nhello\n/switch 1\nyes\n"
      "/switch 2\nyes\n/list\n");
  ASSERT_EQ(r.status, 0) << r.err;
  const std::vector<std::string> all = lines_of(r.out);
  std::vector<std::string> answers, list;
  for (const std::string& line : all)
    (line.find(" turns  ") == std::string::npos ? answers : list).push_back(line);
  ASSERT_EQ(answers.size(), 6U) << r.out;
  EXPECT_EQ(answers[3], answers[0]) << "a new conversation begins at the beginning";
  // Each is what it would be without the others.
  const auto first = lines_of(chat("hello\nsomething else\nyes\n").out);
  const auto second = lines_of(chat("hello\nand more\nyes\n").out);
  EXPECT_EQ((std::vector{answers[0], answers[2], answers[4]}), first);
  EXPECT_EQ((std::vector{answers[0], answers[1], answers[5]}), second);
  const std::vector<Counts> counts = counts_of(r.err);
  ASSERT_EQ(counts.size(), 6U);
  EXPECT_LT(counts[2].new_tokens, counts[2].prompt_tokens) << "the caches were kept";
  EXPECT_LT(counts[5].new_tokens, counts[5].prompt_tokens) << "the caches were kept";
  ASSERT_GE(list.size(), 3U);
  EXPECT_EQ(list[list.size() - 2], "* 2  6 turns  hello");
}

TEST_F(ChatProgram, RetriesAndListensToTheSystem) {
  const ProcessResult r = chat("/system be kind\nhello\n/retry\n/system\n/retry\n");
  ASSERT_EQ(r.status, 0) << r.err;
  const auto answers = lines_of(r.out);
  const auto counts = counts_of(r.err);
  ASSERT_EQ(answers.size(), 3U) << r.out;
  ASSERT_EQ(counts.size(), 3U);
  EXPECT_EQ(answers[1], answers[0]);
  EXPECT_EQ(counts[1].new_tokens, 1);
  EXPECT_EQ(counts[0].prompt_tokens, counts[2].prompt_tokens + 8);
  EXPECT_EQ(answers[2] + "\n", chat("hello\n").out);
  const ProcessResult given = chat("hello\n", {"--system", "be kind", "--max-tokens", "6"});
  EXPECT_EQ(answers[0] + "\n", given.out);
  // Another try of a random choice chooses anew.
  const ProcessResult hot = chat("hello\n/retry\n", {"--temperature", "9", "--max-tokens", "20"});
  const auto tries = lines_of(hot.out);
  ASSERT_EQ(tries.size(), 2U) << hot.out << hot.err;
  EXPECT_NE(tries[0], tries[1]);
}

TEST_F(ChatProgram, SavesAndLoads) {
  const std::string file = path("talk.json");
  const ProcessResult r = chat("hello\nand more\n/save " + file + "\nyes\n");
  ASSERT_EQ(r.status, 0) << r.err;
  const auto json = nlohmann::json::parse(test::read_file(file));
  ASSERT_EQ(json["turns"].size(), 4U);
  EXPECT_EQ(json["turns"][1]["role"], "assistant");
  EXPECT_EQ(json["turns"][2]["content"], "and more");
  const ProcessResult again = chat("/load " + file + "\nyes\n");
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(lines_of(again.out).back(), lines_of(r.out).back());
}

/// Caches that were saved are read again; those of another file, or a part of them, are not.
TEST_F(ChatProgram, SavesAndLoadsCaches) {
  chat("");  // compiles the model
  const std::string file = path("talk.json"), caches = file + ".caches";
  const ProcessResult r = chat("hello\n/save " + file + "\nand more\n");
  ASSERT_EQ(r.status, 0) << r.err;
  const std::string answer = lines_of(r.out).back();
  const auto loaded = [&](const char* said, bool kept) {
    const ProcessResult again = chat("/load " + file + "\nand more\n");
    ASSERT_EQ(again.status, 0) << again.err;
    EXPECT_EQ(lines_of(again.out).back(), answer) << again.err;
    const auto counts = counts_of(again.err);
    ASSERT_EQ(counts.size(), 1U) << again.err;
    EXPECT_EQ(counts[0].new_tokens < counts[0].prompt_tokens, kept) << again.err;
    EXPECT_NE(again.err.find(said), std::string::npos) << again.err;
  };
  loaded("tokens/s", true);
  const std::string bytes = test::read_file(caches);
  ASSERT_GT(bytes.size(), 100U);
  test::write_file(caches, bytes.substr(0, bytes.size() - 1));
  loaded("is not the file that belongs to the conversation", false);
  std::filesystem::remove(caches);
  loaded(caches.c_str(), false);
  // The caches are damaged, but their digest is the one that the conversation names.
  auto json = nlohmann::json::parse(test::read_file(file));
  test::write_file(caches, "nothing");
  json["caches"]["digest"] = *app::file_digest(caches);
  test::write_file(file, json.dump());
  loaded("caches", false);
  test::write_file(caches, bytes);
  json["caches"]["digest"] = *app::file_digest(caches);
  json["caches"]["model"] = "other";
  test::write_file(file, json.dump());
  loaded("of another model", false);
}

TEST_F(ChatProgram, RefusesFilesThatAreNoConversations) {
  const std::pair<const char*, const char*> files[] = {
      {"", "no conversation"},
      {"[", "no conversation"},
      {"{\"turns\": []}", "no conversation"},
      {"{\"reprise_chat\": 2, \"turns\": []}", "another version"},
      {"{\"reprise_chat\": 1, \"turns\": 3}", "no conversation"},
      {"{\"reprise_chat\": 1, \"turns\": [7]}", "turn 1"},
      {"{\"reprise_chat\": 1, \"turns\": [{\"role\": \"user\"}]}", "turn 1"},
      {"{\"reprise_chat\": 1, \"turns\": [{\"role\": \"root\", \"content\": \"x\"}]}", "'root'"},
      {"{\"reprise_chat\": 1, \"turns\": [{\"role\": 1, \"content\": \"x\"}]}", "turn 1"},
  };
  for (const auto& [content, word] : files) {
    test::write_file(*folder_ / "wrong.json", content);
    const ProcessResult r = chat("/load " + path("wrong.json") + "\nhello\n");
    EXPECT_EQ(r.status, 3) << content;
    EXPECT_NE(r.err.find(word), std::string::npos) << content << "\n" << r.err;
    EXPECT_EQ(lines_of(r.out).size(), 1U) << "the program goes on";
  }
}

TEST_F(ChatProgram, GoesOnAfterErrors) {
  const std::string long_text(600, 'a');
  const std::pair<std::string, const char*> errors[] = {
      {"/nonsense", "/help"},
      {"/switch 9", "/list"},
      {"/switch 0", "/list"},
      {"/switch", "needs the number"},
      {"/switch 1x", "'1x'"},
      {"/save", "needs a file"},
      {"/save /absent/folder/file", "/absent/folder/file"},
      {"/load /absent", "/absent"},
      {"/retry", "no answer"},
      {"bytes \xff", "the line"},
      {long_text, "--capacity"},
      {std::string(1100000, 'a'), "1 MiB"},
  };
  for (const auto& [line, word] : errors) {
    const ProcessResult r = chat(line + "\nhello\n");
    EXPECT_NE(r.status, 0) << line.substr(0, 40);
    EXPECT_NE(r.err.find(word), std::string::npos) << line.substr(0, 40) << "\n" << r.err;
    EXPECT_EQ(r.out, chat("hello\n").out) << "an error leaves nothing behind";
  }
}

TEST_F(ChatProgram, EndsAtTheEndOfInput) {
  EXPECT_EQ(chat("").status, 0);
  EXPECT_EQ(chat("\n  \n").out, "");
  EXPECT_EQ(chat("hello").out, chat("hello\r\n").out);
  EXPECT_EQ(chat("/exit\nhello\n").out, "");
  EXPECT_NE(chat("/help\n").out.find("/fork"), std::string::npos);
}

TEST_F(ChatProgram, FillsTheCachesAndSaysSo) {
  const ProcessResult r = chat("hello\nmore\n", {"--capacity", "10"});
  EXPECT_EQ(r.status, 3);
  EXPECT_NE(r.err.find("no room for more than 10 tokens"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("/new"), std::string::npos) << r.err;
}

TEST_F(ChatProgram, RefusesWhatItCannotUse) {
  const auto refuses = [&](const std::vector<std::string>& options, int status, const char* word) {
    const ProcessResult r = chat("hello\n", options);
    EXPECT_EQ(r.status, status) << r.err;
    EXPECT_NE(r.err.find(word), std::string::npos) << r.err;
  };
  refuses({"--capacity", "0"}, 2, "--capacity");
  refuses({"--tokenizer", "/absent.json"}, 4, "/absent.json");
  refuses({"--top-p", "-1"}, 2, "top");
  refuses({"--system", "kind\xff"}, 3, "--system: malformed UTF-8 at byte 4");
  refuses({"--nonsense"}, 2, "--nonsense");
}

/// A signal ends the answer, and the program answers the next message.
TEST_F(ChatProgram, CtrlCStopsAnAnswer) {
  test::write_tiny_chat_model(*folder_ / "long", 1000000);
  const std::string script =
      "mkfifo pipe\n"
      "\"$@\" <pipe >out 2>err &\n"
      "exec 3>pipe\n"
      "echo hello >&3\n"
      "tries=0\n"
      "while [ ! -s out ] && [ $tries -lt 300 ]; do sleep 0.1; tries=$((tries + 1)); done\n"
      "kill -INT $!\n"
      "echo /new >&3\n"
      "echo /list >&3\n"
      "exec 3>&-\n"
      "wait $!\n"
      "echo status $?\n"
      "cat err\n";
  const ProcessResult r =
      test::run_process({"/bin/sh", "-c", "cd \"$0\" && " + script, folder_->path().string(),
                         test::program("reprise-chat").string(), path("long"), "--device", "host",
                         "--capacity", "1000000"},
                        environment());
  EXPECT_NE(r.out.find("status 0"), std::string::npos) << r.out << r.err;
  EXPECT_NE(r.out.find("; stopped"), std::string::npos) << r.out;
  EXPECT_NE(test::read_file(*folder_ / "out").find("* 2  0 turns  (empty)"), std::string::npos);
}

/// The model of `tools/models chat`.
TEST(ChatModel, KnowsTheCapitalOfFranceFull) {
  const auto model = test::source_dir() / ".cache/chat/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(model))
    GTEST_SKIP() << "the model is missing: tools/models chat fetches it";
  const test::TempDir folder;
  test::write_file(folder / "input",
                   "What is the capital of France?\n/fork\nAnd of Italy?\n/switch 1\n/retry\n");
  const ProcessResult r = test::run_process(
      {"/bin/sh", "-c", "exec \"$0\" \"$1\" --max-tokens 40 <\"$2\"",
       test::program("reprise-chat").string(), model.string(), (folder / "input").string()},
      {"XDG_CACHE_HOME=" + folder.path().string()});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("Paris"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("Rome"), std::string::npos) << r.out;
  const std::vector<Counts> counts = counts_of(r.err);
  ASSERT_EQ(counts.size(), 3U);
  EXPECT_LT(counts[1].new_tokens, 20);
  EXPECT_EQ(counts[2].new_tokens, 1);
}

}  // namespace
}  // namespace reprise
