// Ownership of driver objects, shared by the backends.
#pragma once

#include <memory>
#include <utility>

namespace reprise {

/// Owns a handle of a driver's API. It keeps the driver alive and destroys the handle with
/// driver->destroy<Destroy>(handle), where `Destroy` names the function of the driver's table.
/// Errors of that function are ignored, because nothing could be done about them.
template <typename Driver, typename T, auto Destroy>
class Owned {
 public:
  Owned() = default;
  Owned(std::shared_ptr<Driver> driver, T handle) : driver_(std::move(driver)), handle_(handle) {}
  Owned(Owned&& o) noexcept
      : driver_(std::move(o.driver_)), handle_(std::exchange(o.handle_, T{})) {}
  Owned& operator=(Owned&& o) noexcept {
    std::swap(driver_, o.driver_);
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_) driver_->template destroy<Destroy>(handle_);
  }
  T get() const { return handle_; }

 private:
  std::shared_ptr<Driver> driver_;
  T handle_{};
};

}  // namespace reprise
