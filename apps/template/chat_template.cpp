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

/// A time in UTC, and its parts as Python's strftime() names them.
class CalendarTime {
 public:
  explicit CalendarTime(int64_t seconds)
      : CalendarTime(sys_seconds(std::chrono::seconds(seconds))) {}

  /// Nothing for a letter that is not supported.
  std::optional<std::string> part(char letter) const {
    switch (letter) {
      case 'F':
        return year() + "-" + two_digits(month_) + "-" + two_digits(day_);
      case 'T':
        return two_digits(hour_) + ":" + two_digits(minute_) + ":" + two_digits(second_);
      case '%':
        return "%";
      default: {
        auto of_date = date_part(letter);
        return of_date ? of_date : clock_part(letter);
      }
    }
  }

 private:
  using sys_seconds = std::chrono::sys_seconds;
  using sys_days = std::chrono::sys_days;
  explicit CalendarTime(sys_seconds time)
      : CalendarTime(std::chrono::floor<std::chrono::days>(time), time) {}
  CalendarTime(sys_days days, sys_seconds time)
      : date_(days), weekday_(std::chrono::weekday(days).c_encoding()) {
    const std::chrono::hh_mm_ss clock(time - days);
    hour_ = clock.hours().count();
    minute_ = clock.minutes().count();
    second_ = clock.seconds().count();
    month_ = static_cast<unsigned>(date_.month());
    day_ = static_cast<unsigned>(date_.day());
  }

  std::string year() const { return std::to_string(static_cast<int>(date_.year())); }

  std::optional<std::string> date_part(char letter) const {
    static constexpr std::array<std::string_view, 12> kMonths{
        "January", "February", "March",     "April",   "May",      "June",
        "July",    "August",   "September", "October", "November", "December"};
    static constexpr std::array<std::string_view, 7> kDays{
        "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
    const std::string_view month = kMonths[static_cast<size_t>(month_) - 1], day = kDays[weekday_];
    switch (letter) {
      case 'Y':
        return year();
      case 'y':
        return two_digits(static_cast<int>(date_.year()) % 100);
      case 'm':
        return two_digits(month_);
      case 'B':
        return std::string(month);
      case 'b':
        return std::string(month.substr(0, 3));
      case 'd':
        return two_digits(day_);
      case 'e':
        return (day_ < 10 ? " " : "") + std::to_string(day_);
      case 'A':
        return std::string(day);
      case 'a':
        return std::string(day.substr(0, 3));
      default:
        return std::nullopt;
    }
  }

  std::optional<std::string> clock_part(char letter) const {
    switch (letter) {
      case 'H':
        return two_digits(hour_);
      case 'I':
        return two_digits((hour_ + 11) % 12 + 1);
      case 'p':
        return hour_ < 12 ? "AM" : "PM";
      case 'M':
        return two_digits(minute_);
      case 'S':
        return two_digits(second_);
      default:
        return std::nullopt;
    }
  }

  std::chrono::year_month_day date_;
  unsigned weekday_;
  int64_t month_ = 0, day_ = 0, hour_ = 0, minute_ = 0, second_ = 0;
};

}  // namespace

Result<std::string> formatted_time(int64_t seconds, std::string_view format) {
  if (seconds < -60'000'000'000 || seconds > 250'000'000'000)
    return invalid_input("the time is out of range");
  const CalendarTime time(seconds);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const auto part = time.part(format[++i]);
    if (!part) {
      return unsupported(std::string("'%") + format[i] +
                         "' in a format of a time is not supported");
    }
    out += *part;
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
