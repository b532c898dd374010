#include <algorithm>
#include <array>
#include <functional>

#include "apps/template/interpreter.h"
#include "apps/text/unicode.h"

namespace reprise::text {

namespace {

/// Arguments of the method of a text.
struct TextCall {
  const std::string& self;
  const Arguments& args;
  Budget& budget;

  /// Argument `index`, if it is a text.
  const std::string* text(size_t index, std::string_view name) const {
    const Value* v = args.get(index, name);
    return v != nullptr && v->is_text() ? &v->str() : nullptr;
  }
};

using TextMethod = Result<Value> (*)(const TextCall&);

Status needs_text(const char* method) {
  return invalid_input(std::string(method) + "() needs a text");
}

template <bool left, bool right>
Result<Value> strip(const TextCall& c) {
  const Value* chars = c.args.get(0, "chars");
  if (chars != nullptr && chars->is_none()) chars = nullptr;
  if (chars != nullptr && !chars->is_text()) return needs_text("strip");
  return Value::text(std::string(stripped(c.self, chars, left, right)));
}

Result<Value> split_spaces(const TextCall& c, int64_t most) {
  Values out;
  std::string_view rest = stripped(c.self, nullptr, true, false);
  while (!rest.empty()) {
    size_t end = 0;
    if (most >= 0 && static_cast<int64_t>(out.size()) == most) {
      end = rest.size();
    } else {
      while (end < rest.size() && !is_python_space(char_at(rest, end)))
        end += char_length(rest[end]);
    }
    out.push_back(Value::text(std::string(rest.substr(0, end))));
    rest = stripped(rest.substr(end), nullptr, true, false);
  }
  return Value::list(std::move(out));
}

template <bool from_right>
Result<Value> split(const TextCall& c) {
  const Value* separator = c.args.get(0, "sep");
  const Value* most_value = c.args.get(1, "maxsplit");
  const int64_t most = most_value == nullptr ? -1 : most_value->as_integer().value_or(-1);
  RP_TRY(c.budget.step(c.self.size() / 8));
  if (separator == nullptr || separator->is_none()) {
    if (from_right && most >= 0)
      return unsupported("rsplit() without a separator is not supported");
    return split_spaces(c, most);
  }
  if (!separator->is_text() || separator->str().empty()) return needs_text("split");
  const std::string& sep = separator->str();
  Values out;
  std::string_view rest = c.self;
  while (most < 0 || static_cast<int64_t>(out.size()) < most) {
    const size_t at = from_right ? rest.rfind(sep) : rest.find(sep);
    if (at == std::string_view::npos) break;
    out.push_back(
        Value::text(std::string(from_right ? rest.substr(at + sep.size()) : rest.substr(0, at))));
    rest = from_right ? rest.substr(0, at) : rest.substr(at + sep.size());
  }
  out.push_back(Value::text(std::string(rest)));
  if (from_right) std::reverse(out.begin(), out.end());
  return Value::list(std::move(out));
}

Result<Value> splitlines(const TextCall& c) {
  const Value* keep = c.args.get(0, "keepends");
  const bool keeps = keep != nullptr && keep->truth();
  Values out;
  size_t begin = 0;
  const std::string& s = c.self;
  RP_TRY(c.budget.step(s.size() / 8));
  for (size_t i = 0; i < s.size();) {
    const char32_t ch = char_at(s, i);
    size_t next = i + char_length(s[i]);
    const bool ends = (ch >= 10 && ch <= 13) || (ch >= 0x1C && ch <= 0x1E) || ch == 0x85 ||
                      ch == 0x2028 || ch == 0x2029;
    if (ends) {
      if (ch == '\r' && next < s.size() && s[next] == '\n') ++next;
      out.push_back(Value::text(s.substr(begin, (keeps ? next : i) - begin)));
      begin = next;
    }
    i = next;
  }
  if (begin < s.size()) out.push_back(Value::text(s.substr(begin)));
  return Value::list(std::move(out));
}

template <bool at_end>
Result<Value> affix(const TextCall& c) {
  const Value* what = c.args.get(0, "");
  if (what == nullptr) return needs_text("startswith");
  const auto holds = [&](const Value& v) {
    return v.is_text() && (at_end ? c.self.ends_with(v.str()) : c.self.starts_with(v.str()));
  };
  if (what->is_list())
    return Value::boolean(std::any_of(what->items().begin(), what->items().end(), holds));
  if (!what->is_text()) return needs_text(at_end ? "endswith" : "startswith");
  return Value::boolean(holds(*what));
}

template <bool at_end>
Result<Value> remove_affix(const TextCall& c) {
  const std::string* what = c.text(0, "");
  if (what == nullptr) return needs_text("removeprefix");
  if (at_end ? !c.self.ends_with(*what) : !c.self.starts_with(*what)) return Value::text(c.self);
  return Value::text(at_end ? c.self.substr(0, c.self.size() - what->size())
                            : c.self.substr(what->size()));
}

Result<Value> replace(const TextCall& c) {
  const std::string *from = c.text(0, "old"), *to = c.text(1, "new");
  if (from == nullptr || to == nullptr) return needs_text("replace");
  const Value* count = c.args.get(2, "count");
  const size_t most = from->empty() ? c.self.size() + 1 : c.self.size() / from->size();
  if (!to->empty() && most > c.budget.limits().output / to->size())
    return invalid_input("replace() could make a text that is too long");
  std::string out =
      replaced(c.self, *from, *to, count == nullptr ? -1 : count->as_integer().value_or(-1));
  RP_TRY(c.budget.size(out.size()));
  return Value::text(std::move(out));
}

template <bool last>
Result<Value> find(const TextCall& c) {
  const std::string* what = c.text(0, "sub");
  if (what == nullptr || c.args.values.size() > 1) return needs_text("find");
  const size_t at = last ? c.self.rfind(*what) : c.self.find(*what);
  if (at == std::string::npos) return Value::integer(-1);
  return Value::integer(static_cast<int64_t>(count_chars(std::string_view(c.self).substr(0, at))));
}

Result<Value> count(const TextCall& c) {
  const std::string* what = c.text(0, "sub");
  if (what == nullptr || what->empty()) return needs_text("count");
  int64_t found = 0;
  for (size_t at = c.self.find(*what); at != std::string::npos;
       at = c.self.find(*what, at + what->size()))
    ++found;
  return Value::integer(found);
}

Result<Value> join(const TextCall& c) {
  const Value* list = c.args.get(0, "iterable");
  if (list == nullptr) return invalid_input("join() needs a list");
  RP_ASSIGN(const Values items, iterated(*list, c.budget));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_text())
      return invalid_input(std::string("join() needs texts, but found ") + items[i].kind());
    if (i > 0) out += c.self;
    out += items[i].str();
    RP_TRY(c.budget.size(out.size()));
  }
  return Value::text(std::move(out));
}

Result<Value> upper(const TextCall& c) {
  return Value::text(upper_case(c.self));
}
Result<Value> lower(const TextCall& c) {
  return Value::text(lower_case(c.self));
}

Result<Value> capitalize(const TextCall& c) {
  std::string out;
  if (c.self.empty()) return Value::text(out);
  const size_t first = char_length(c.self[0]);
  append_title(out, char_at(c.self, 0));
  return Value::text(out + lower_case(std::string_view(c.self).substr(first)));
}

Result<Value> title(const TextCall& c) {
  std::string out;
  bool in_word = false;
  for (size_t i = 0; i < c.self.size(); i += char_length(c.self[i])) {
    const char32_t ch = char_at(c.self, i);
    if (in_word)
      append_lower(out, std::string_view(c.self).substr(i, char_length(c.self[i])));
    else
      append_title(out, ch);
    in_word = is_upper(ch) || is_lower(ch);
  }
  return Value::text(std::move(out));
}

template <bool (*holds)(char32_t)>
Result<Value> all_chars(const TextCall& c) {
  const std::vector<char32_t> chars = to_chars(c.self);
  return Value::boolean(!chars.empty() && std::all_of(chars.begin(), chars.end(), holds));
}

template <bool upper_case_wanted>
Result<Value> is_case(const TextCall& c) {
  bool any = false;
  for (const char32_t ch : to_chars(c.self)) {
    if (upper_case_wanted ? is_lower(ch) : is_upper(ch)) return Value::boolean(false);
    any = any || is_lower(ch) || is_upper(ch);
  }
  return Value::boolean(any);
}

bool is_letter(char32_t c) {
  return is_alphanumeric(c) && !is_number(c);
}

template <bool last>
Result<Value> partition(const TextCall& c) {
  const std::string* sep = c.text(0, "");
  if (sep == nullptr || sep->empty()) return needs_text("partition");
  const size_t at = last ? c.self.rfind(*sep) : c.self.find(*sep);
  std::array<std::string, 3> parts;
  if (at != std::string::npos) {
    parts = {c.self.substr(0, at), *sep, c.self.substr(at + sep->size())};
  } else {
    parts[last ? 2 : 0] = c.self;
  }
  Values out;
  for (std::string& p : parts) out.push_back(Value::text(std::move(p)));
  return Value::list(std::move(out), true);
}

struct NamedTextMethod {
  std::string_view name;
  TextMethod call;
};

constexpr NamedTextMethod kTextMethods[] = {
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", splitlines},
    {"startswith", affix<false>},
    {"endswith", affix<true>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace},
    {"find", find<false>},
    {"rfind", find<true>},
    {"count", count},
    {"join", join},
    {"upper", upper},
    {"lower", lower},
    {"capitalize", capitalize},
    {"title", title},
    {"isdigit", all_chars<is_digit>},
    {"isalpha", all_chars<is_letter>},
    {"isalnum", all_chars<is_alphanumeric>},
    {"isspace", all_chars<is_python_space>},
    {"isupper", is_case<true>},
    {"islower", is_case<false>},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
};

const NamedTextMethod* text_method(std::string_view name) {
  const auto* at = std::find_if(std::begin(kTextMethods), std::end(kTextMethods),
                                [&](const auto& m) { return m.name == name; });
  return at == std::end(kTextMethods) ? nullptr : at;
}

Result<Value> dict_method(const Value& self, const std::string& name, const Arguments& args) {
  const auto& members = self.members().members;
  if (name == "get") {
    const Value* key = args.get(0, "key");
    if (key == nullptr) return invalid_input("get() needs a key");
    if (const Value* found = self.members().find(*key)) return *found;
    const Value* otherwise = args.get(1, "default");
    return otherwise != nullptr ? *otherwise : Value::none();
  }
  if (name == "copy") return self;
  Values out;
  out.reserve(members.size());
  for (const auto& [key, value] : members) {
    if (name == "keys")
      out.push_back(key);
    else if (name == "values")
      out.push_back(value);
    else
      out.push_back(Value::list({key, value}, true));
  }
  return Value::list(std::move(out));
}

Result<Value> list_method(const Value& self, const std::string& name, const Arguments& args) {
  if (name == "copy") return self;
  const Value* what = args.get(0, "value");
  if (what == nullptr) return invalid_input(name + "() needs a value");
  int64_t found = 0;
  for (size_t i = 0; i < self.items().size(); ++i) {
    if (!self.items()[i].equals(*what)) continue;
    if (name == "index") return Value::integer(static_cast<int64_t>(i));
    ++found;
  }
  if (name == "index") return invalid_input("index() finds no such item");
  return Value::integer(found);
}

}  // namespace

bool is_python_space(char32_t c) {
  return is_space(c) || (c >= 0x1C && c <= 0x1F);
}

std::string_view stripped(std::string_view text, const Value* chars, bool left, bool right) {
  const std::vector<char32_t> wanted =
      chars == nullptr ? std::vector<char32_t>() : to_chars(chars->str());
  const auto goes = [&](char32_t c) {
    return chars == nullptr ? is_python_space(c)
                            : std::find(wanted.begin(), wanted.end(), c) != wanted.end();
  };
  while (left && !text.empty() && goes(char_at(text, 0))) text.remove_prefix(char_length(text[0]));
  while (right && !text.empty()) {
    size_t last = text.size() - 1;
    while ((static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    if (!goes(char_at(text, last))) break;
    text = text.substr(0, last);
  }
  return text;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to,
                     int64_t most) {
  std::string out;
  if (from.empty()) {  // between all characters
    size_t at = 0;
    for (int64_t n = 0; at <= text.size(); ++n) {
      if (most < 0 || n < most) out += to;
      if (at == text.size()) break;
      out += text.substr(at, char_length(text[at]));
      at += char_length(text[at]);
    }
    return out;
  }
  size_t copied = 0;
  for (int64_t n = 0; most < 0 || n < most; ++n) {
    const size_t at = text.find(from, copied);
    if (at == std::string_view::npos) break;
    out += text.substr(copied, at - copied);
    out += to;
    copied = at + from.size();
  }
  out += text.substr(copied);
  return out;
}

bool has_method(const Value& self, const std::string& name) {
  static constexpr std::array<std::string_view, 5> kOfDicts{"get", "items", "keys", "values",
                                                            "copy"};
  static constexpr std::array<std::string_view, 3> kOfLists{"index", "count", "copy"};
  const auto in = [&](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (self.is_text()) return text_method(name) != nullptr;
  if (self.is_dict()) return in(kOfDicts);
  if (self.is_list()) return in(kOfLists);
  return self.as_loop() != nullptr && name == "cycle";
}

Result<Value> call_method(const Value& self, const std::string& name, const Arguments& args,
                          Budget& budget) {
  if (self.is_text()) return text_method(name)->call({self.str(), args, budget});
  if (self.is_dict()) return dict_method(self, name, args);
  if (self.is_list()) return list_method(self, name, args);
  if (args.values.empty()) return invalid_input("loop.cycle() needs values");
  return args.values[self.as_loop()->index % args.values.size()];
}

}  // namespace reprise::text
