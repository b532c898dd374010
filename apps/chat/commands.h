// What the user types: messages and commands.
#pragma once

#include "apps/chat/chat.h"
#include "apps/chat/console.h"

namespace reprise::chat {

class Commands {
 public:
  Commands(Chat& chat, Console& console) : chat_(chat), console_(console) {}

  /// Reads lines until the input ends or the user leaves. Errors are shown and the loop goes on.
  /// Returns the exit status: where no person types, that of the first error.
  int run();

 private:
  enum class Then { GoOn, Leave };
  Result<Then> obey(const Line& line);
  Status answer(bool again, const std::string& message);
  Status save(const std::string& path);
  Status load(const std::string& path);
  Status select(const std::string& number);
  Status set_system(const std::string& text);
  void list() const;

  Chat& chat_;
  Console& console_;
};

}  // namespace reprise::chat
