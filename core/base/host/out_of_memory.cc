#include "core/base/host/out_of_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <new>
#include <system_error>

namespace dpipe {
namespace {

// Null until EndWhenOutOfMemory is called; operator new then throws as usual.
std::atomic<const char*> program_name{nullptr};

// Returns the size of the address space, the first number of /proc/self/statm in pages, or 0 if it
// cannot be read.
int64_t AddressSpaceBytes() {
  char text[32] = {};
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t size = ::read(fd, text, sizeof(text) - 1);
  ::close(fd);
  return size <= 0 ? 0 : std::strtoll(text, nullptr, 10) * ::sysconf(_SC_PAGESIZE);
}

int64_t AddressSpaceLimit() {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  rlimit limit;
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNone;
  return limit.rlim_cur > static_cast<rlim_t>(kNone) ? kNone : limit.rlim_cur;
}

constexpr double kMiB = 1 << 20;

// Ends the process like EndOutOfMemory, also if the requested size is unknown.
[[noreturn]] void End(const char* wanted) {
  const char* const program = program_name;
  char limit[64] = "";
  if (AddressSpaceLimit() < std::numeric_limits<int64_t>::max()) {
    std::snprintf(limit, sizeof(limit), ", the limit is %.0f (ulimit -v)",
                  AddressSpaceLimit() / kMiB);
  }
  char message[400];
  const int size = std::snprintf(
      message, sizeof(message),
      "%s%sout of memory: the system cannot provide %s; this process has %.0f MiB of "
      "address space%s; use less (a smaller batch or image, fewer devices), or raise the limit\n",
      program == nullptr ? "" : program, program == nullptr ? "" : ": ", wanted,
      AddressSpaceBytes() / kMiB, limit);
  const size_t length = std::min(sizeof(message) - 1, static_cast<size_t>(size));
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message, length);
  ::_exit(kOutOfMemoryExitCode);
}

[[noreturn]] void EndWithoutMemory() { End("more memory"); }

// The terminate handler.
[[noreturn]] void Terminate() {
  try {
    if (const std::exception_ptr escaped = std::current_exception()) {
      std::rethrow_exception(escaped);
    }
  } catch (const std::bad_alloc&) {
    EndWithoutMemory();
  } catch (const std::system_error& error) {
    // The system's error if memory or a limit on threads does not allow another thread.
    if (error.code() == std::errc::resource_unavailable_try_again) End("one more thread");
    std::fprintf(stderr, "%s: %s\n", program_name.load(), error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: exception: %s\n", program_name.load(), error.what());
  } catch (...) {
  }
  std::abort();
}

}  // namespace

void EndWhenOutOfMemory(const char* program) {
  program_name = program;
  std::set_new_handler(EndWithoutMemory);
  std::set_terminate(Terminate);
}

bool EndsWhenOutOfMemory() { return program_name != nullptr; }

void EndOutOfMemory(int64_t wanted_bytes, const char* what) {
  char wanted[160];
  std::snprintf(wanted, sizeof(wanted), "%.1f MiB for %s", wanted_bytes / kMiB, what);
  End(wanted);
}

int64_t AddressSpaceRoomBytes() {
  const int64_t limit = AddressSpaceLimit();
  if (limit == std::numeric_limits<int64_t>::max()) return limit;
  const int64_t room = limit - AddressSpaceBytes();
  return room > 0 ? room : 0;
}

}  // namespace dpipe

// Like the standard library's operator new, but reports the requested size when memory runs out.
// Sanitizers define their own.
#ifndef __SANITIZE_ADDRESS__

void* operator new(std::size_t size) {
  void* const data = std::malloc(size > 0 ? size : 1);
  if (data != nullptr) return data;
  if (dpipe::EndsWhenOutOfMemory()) {
    dpipe::EndOutOfMemory(static_cast<int64_t>(size), "one object");
  }
  throw std::bad_alloc();
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size > 0 ? size : 1);
}

#endif
