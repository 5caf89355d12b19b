// Ends a program that runs out of host memory with a message and exit code 3, instead of abort() or
// a failure inside an unprepared library.
#ifndef DPIPE_CORE_BASE_HOST_OUT_OF_MEMORY_H_
#define DPIPE_CORE_BASE_HOST_OUT_OF_MEMORY_H_

#include <cstdint>

namespace dpipe {

constexpr int kOutOfMemoryExitCode = 3;

// After this call, a failed allocation by operator new, or a failure to start a thread, ends the
// process like EndOutOfMemory. `program` begins the message and must outlive all threads.
void EndWhenOutOfMemory(const char* program);
bool EndsWhenOutOfMemory();  // true after EndWhenOutOfMemory was called

// Writes "PROGRAM: out of memory: the system cannot provide 1.5 MiB for WHAT; this process has ..."
// to standard error. Then ends the process with kOutOfMemoryExitCode, without running destructors,
// which may need memory too. Allocates nothing. Thread-safe.
[[noreturn]] void EndOutOfMemory(int64_t wanted_bytes, const char* what);

// Returns the bytes of address space that the process may still take under its limit (`ulimit -v`),
// or the largest int64 if there is no limit.
int64_t AddressSpaceRoomBytes();

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_HOST_OUT_OF_MEMORY_H_
