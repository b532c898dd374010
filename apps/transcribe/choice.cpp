#include "apps/transcribe/choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace transcribe {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr int64_t kLatestFirst = 50;  // the first time is at most 1 s
constexpr double kTimeStep = 0.02;    // seconds from one time to the next

void forbid(std::span<float> logits, int64_t from, int64_t to) {
  const auto size = static_cast<int64_t>(logits.size());
  for (int64_t i = std::max<int64_t>(from, 0); i < std::min(to, size); ++i)
    logits[static_cast<size_t>(i)] = kNever;
}

/// The logarithm of the sum of exponentials.
double log_sum(std::span<const float> logits) {
  if (logits.empty()) return -std::numeric_limits<double>::infinity();
  const double most = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  if (!std::isfinite(most)) return most;
  double sum = 0;
  for (const float l : logits) sum += std::exp(static_cast<double>(l) - most);
  return most + std::log(sum);
}

/// Forbids what breaks the order of times.
void keep_order(std::span<float> logits, const std::vector<int64_t>& chosen, const Vocabulary& v) {
  const auto size = static_cast<int64_t>(logits.size());
  if (chosen.empty()) {
    forbid(logits, 0, v.first_time);
    forbid(logits, v.first_time + kLatestFirst + 1, size);
    return;
  }
  const bool last = chosen.back() >= v.first_time;
  const bool before = chosen.size() < 2 || chosen[chosen.size() - 2] >= v.first_time;
  if (last && before) forbid(logits, v.first_time, size);
  if (last && !before) forbid(logits, 0, v.end);
  int64_t latest = 0;
  for (const int64_t token : chosen)
    if (token >= v.first_time) latest = token;
  // An end may be the next beginning, but a part is not empty.
  if (latest != 0) forbid(logits, v.first_time, last && !before ? latest : latest + 1);
}

}  // namespace

Choice choose(std::span<float> logits, const std::vector<int64_t>& chosen, const Vocabulary& v,
              bool with_times) {
  const auto size = static_cast<int64_t>(logits.size());
  for (const int64_t id : v.suppressed) forbid(logits, id, id + 1);
  if (chosen.empty())
    for (const int64_t id : v.suppressed_first) forbid(logits, id, id + 1);
  forbid(logits, v.no_timestamps, v.no_timestamps + 1);
  if (with_times) {
    keep_order(logits, chosen, v);
    const auto words = logits.first(static_cast<size_t>(v.first_time));
    const auto times = logits.subspan(static_cast<size_t>(v.first_time));
    const auto best = static_cast<double>(*std::max_element(words.begin(), words.end()));
    if (log_sum(times) > best) forbid(logits, 0, v.first_time);
  } else {
    forbid(logits, v.first_time, size);
  }
  const auto best = std::max_element(logits.begin(), logits.end());
  return {best - logits.begin(), static_cast<double>(*best) - log_sum(logits)};
}

double probability_of(std::span<const float> logits, int64_t token) {
  return std::exp(static_cast<double>(logits[static_cast<size_t>(token)]) - log_sum(logits));
}

std::vector<Segment> segments_of(const std::vector<int64_t>& tokens, const Vocabulary& v,
                                 double duration, double& next) {
  const auto is_time = [&](size_t i) { return tokens[i] >= v.first_time; };
  const auto seconds = [&](int64_t token) {
    return static_cast<double>(token - v.first_time) * kTimeStep;
  };
  std::vector<size_t> cuts;  // where one part ends and the next begins
  for (size_t i = 1; i < tokens.size(); ++i)
    if (is_time(i - 1) && is_time(i)) cuts.push_back(i);
  const size_t count = tokens.size();
  const bool ends_alone = count >= 2 && is_time(count - 1) && !is_time(count - 2);
  next = duration;
  if (ends_alone || cuts.empty()) cuts.push_back(count);
  std::vector<Segment> out;
  size_t begin = 0;
  for (const size_t end : cuts) {
    Segment s{0, duration, {}};
    for (size_t i = begin; i < end; ++i)
      if (!is_time(i)) s.tokens.push_back(tokens[i]);
    if (begin < end && is_time(begin)) s.begin = std::min(seconds(tokens[begin]), duration);
    if (begin < end && is_time(end - 1) && end - begin > 1)
      s.end = std::min(seconds(tokens[end - 1]), duration);
    if (!s.tokens.empty() && s.end >= s.begin) out.push_back(std::move(s));
    begin = end;
  }
  // What was begun after the last cut is heard again, from its beginning.
  if (!ends_alone && begin < count && is_time(begin - 1))
    next = std::min(seconds(tokens[begin - 1]), duration);
  if (next <= 0) next = duration;
  return out;
}

}  // namespace transcribe
