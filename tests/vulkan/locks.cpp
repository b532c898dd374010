#include "locks.h"

#include <dlfcn.h>
#include <pthread.h>

namespace reprise::test {
namespace {

thread_local int64_t held = 0;

using Call = int (*)(pthread_mutex_t*);

[[maybe_unused]] Call real(const char* name) {
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

}  // namespace

int64_t locks_held() {
  return held;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

bool locks_are_counted() {
  return false;
}

}  // namespace reprise::test

#else

bool locks_are_counted() {
  return true;
}

}  // namespace reprise::test

// std::mutex calls these functions, and finds those of the program before those of the C library.
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const reprise::test::Call real = reprise::test::real("pthread_mutex_lock");
  const int r = real(mutex);
  if (r == 0) ++reprise::test::held;
  return r;
}

extern "C" int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  static const reprise::test::Call real = reprise::test::real("pthread_mutex_trylock");
  const int r = real(mutex);
  if (r == 0) ++reprise::test::held;
  return r;
}

extern "C" int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  static const reprise::test::Call real = reprise::test::real("pthread_mutex_unlock");
  const int r = real(mutex);
  if (r == 0) --reprise::test::held;
  return r;
}

#endif
