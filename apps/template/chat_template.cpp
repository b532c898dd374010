#include "apps/template/chat_template.h"

#include <array>
#include <chrono>
#include <utility>

#include "apps/template/interpreter.h"
#include "apps/text/unicode.h"

namespace reprise::text {

struct ChatTemplate::Program {
  std::string name;
  NodePtr body;
};

namespace {

constexpr size_t kMostSource = size_t{1} << 20;

Result<Value> read_variables(std::string_view json, const char* what) {
  RP_ASSIGN(const formats::Json parsed, formats::Json::parse(json, what));
  return Value::from_json(parsed);
}

std::string two_digits(int64_t n) {
  return (n < 10 ? "0" : "") + std::to_string(n);
}

Result<std::string> render_program(const ChatTemplate::Program& program, const Value& messages,
                                   const ChatOptions& options) {
  Interpreter interpreter(options);
  interpreter.set("bos_token", Value::text(options.bos_token));
  interpreter.set("eos_token", Value::text(options.eos_token));
  interpreter.set("add_generation_prompt", Value::boolean(options.add_generation_prompt));
  interpreter.set("tools", Value::none());
  interpreter.set("documents", Value::none());
  if (!messages.is_undefined()) interpreter.set("messages", messages);
  if (!options.tools.empty()) {
    RP_ASSIGN(Value tools, read_variables(options.tools, "tools"));
    interpreter.set("tools", std::move(tools));
  }
  if (!options.variables.empty()) {
    RP_ASSIGN(const Value more, read_variables(options.variables, "variables"));
    if (!more.is_dict()) return invalid_input("variables must be a JSON object");
    for (const auto& [key, value] : more.members().members) interpreter.set(key.str(), value);
  }
  auto out = interpreter.run(*program.body);
  return out.ok() ? out : out.status().with_context(program.name);
}

}  // namespace

Result<std::string> formatted_time(int64_t seconds, std::string_view format) {
  namespace chrono = std::chrono;
  static constexpr std::array<const char*, 12> kMonths{
      "January", "February", "March",     "April",   "May",      "June",
      "July",    "August",   "September", "October", "November", "December"};
  static constexpr std::array<const char*, 7> kDays{"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                    "Thursday", "Friday", "Saturday"};
  if (seconds < -60'000'000'000 || seconds > 250'000'000'000)
    return invalid_input("the time is out of range");
  const chrono::sys_seconds time{chrono::seconds(seconds)};
  const auto day = chrono::floor<chrono::days>(time);
  const chrono::year_month_day date(day);
  const chrono::hh_mm_ss clock(time - day);
  const unsigned month = static_cast<unsigned>(date.month()) - 1;
  const std::string month_name = kMonths[month];
  const std::string day_name = kDays[chrono::weekday(day).c_encoding()];
  const auto of_day = static_cast<int64_t>(static_cast<unsigned>(date.day()));
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    switch (format[++i]) {
      case 'Y':
        out += std::to_string(static_cast<int>(date.year()));
        break;
      case 'y':
        out += two_digits(static_cast<int>(date.year()) % 100);
        break;
      case 'm':
        out += two_digits(month + 1);
        break;
      case 'B':
        out += month_name;
        break;
      case 'b':
        out += month_name.substr(0, 3);
        break;
      case 'd':
        out += two_digits(of_day);
        break;
      case 'e':
        out += (of_day < 10 ? " " : "") + std::to_string(of_day);
        break;
      case 'A':
        out += day_name;
        break;
      case 'a':
        out += day_name.substr(0, 3);
        break;
      case 'H':
        out += two_digits(clock.hours().count());
        break;
      case 'I':
        out += two_digits((clock.hours().count() + 11) % 12 + 1);
        break;
      case 'p':
        out += clock.hours().count() < 12 ? "AM" : "PM";
        break;
      case 'M':
        out += two_digits(clock.minutes().count());
        break;
      case 'S':
        out += two_digits(clock.seconds().count());
        break;
      case 'F':
        out += std::to_string(static_cast<int>(date.year())) + "-" + two_digits(month + 1) + "-" +
               two_digits(of_day);
        break;
      case 'T':
        out += two_digits(clock.hours().count()) + ":" + two_digits(clock.minutes().count()) + ":" +
               two_digits(clock.seconds().count());
        break;
      case '%':
        out += '%';
        break;
      default:
        return unsupported(std::string("'%") + format[i] +
                           "' in a format of a time is not supported");
    }
  }
  return out;
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const std::string& name) {
  if (source.size() > kMostSource) {
    return invalid_model(name + ": the template has " + std::to_string(source.size()) +
                         " bytes, more than " + std::to_string(kMostSource));
  }
  const size_t valid = first_invalid(source);
  if (valid != source.size())
    return invalid_model(name + ": the template is not valid UTF-8 at byte " +
                         std::to_string(valid));
  auto body = parse_template(source);
  if (!body.ok()) return body.status().with_context(name);
  auto program = std::make_shared<Program>();
  program->name = name;
  program->body = std::move(*body);
  return ChatTemplate(std::move(program));
}

Result<std::string> ChatTemplate::render(std::span<const ChatMessage> messages,
                                         const ChatOptions& options) const {
  Values all;
  all.reserve(messages.size());
  for (const ChatMessage& m : messages) {
    for (const std::string* text : {&m.role, &m.content}) {
      const size_t valid = first_invalid(*text);
      if (valid != text->size()) {
        return invalid_input("message " + std::to_string(all.size()) +
                             " is not valid UTF-8 at byte " + std::to_string(valid));
      }
    }
    all.push_back(Value::dict({{Value::text("role"), Value::text(m.role)},
                               {Value::text("content"), Value::text(m.content)}}));
  }
  return render_program(*program_, Value::list(std::move(all)), options);
}

Result<std::string> ChatTemplate::render_json(std::string_view messages,
                                              const ChatOptions& options) const {
  RP_ASSIGN(const Value value, read_variables(messages, "messages"));
  if (!value.is_list()) return invalid_input("messages must be a JSON array");
  return render_program(*program_, value, options);
}

Result<std::string> ChatTemplate::render_variables(std::string_view variables,
                                                   const ChatOptions& options) const {
  ChatOptions with = options;
  with.variables = variables;
  return render_program(*program_, Value(), with);
}

}  // namespace reprise::text
