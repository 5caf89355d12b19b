// Checks of invariants that only a bug in this project can break. Bad input is a Status instead.
#ifndef DPIPE_CORE_BASE_CHECK_H_
#define DPIPE_CORE_BASE_CHECK_H_

#include <sstream>
#include <string>

namespace dpipe::internal {

// Collects a message. The destructor prints it with the source location and aborts.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  template <typename T>
  CheckFailure& operator<<(const T& value) {
    message_ << value;
    return *this;
  }

 private:
  std::ostringstream message_;
};

}  // namespace dpipe::internal

#define DPIPE_CHECK(condition)                           \
  if (__builtin_expect(static_cast<bool>(condition), 1)) \
    ;                                                    \
  else                                                   \
    ::dpipe::internal::CheckFailure(__FILE__, __LINE__, #condition)

#define DPIPE_CHECK_OP_(a, op, b) DPIPE_CHECK((a)op(b)) << " (" << (a) << " against " << (b) << ") "
#define DPIPE_CHECK_EQ(a, b) DPIPE_CHECK_OP_(a, ==, b)
#define DPIPE_CHECK_NE(a, b) DPIPE_CHECK_OP_(a, !=, b)
#define DPIPE_CHECK_LE(a, b) DPIPE_CHECK_OP_(a, <=, b)
#define DPIPE_CHECK_LT(a, b) DPIPE_CHECK_OP_(a, <, b)
#define DPIPE_CHECK_GE(a, b) DPIPE_CHECK_OP_(a, >=, b)
#define DPIPE_CHECK_GT(a, b) DPIPE_CHECK_OP_(a, >, b)

#endif  // DPIPE_CORE_BASE_CHECK_H_
