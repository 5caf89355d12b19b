// How a program ends when the host has no more memory for it: with a sentence and exit code 3, not
// by abort() or in the middle of a library that did not expect it.
#ifndef DPIPE_CORE_BASE_OUT_OF_MEMORY_H_
#define DPIPE_CORE_BASE_OUT_OF_MEMORY_H_

#include <cstdint>

namespace dpipe {

constexpr int kOutOfMemoryExitCode = 3;

// From now on, memory that operator new cannot get, and a thread that cannot be started, end the
// process as EndOutOfMemory does. `program` begins the message; it outlives the process's threads.
void EndWhenOutOfMemory(const char* program);
bool EndsWhenOutOfMemory();  // true once that was called

// Writes "PROGRAM: out of memory: 1.5 GiB more for WHAT; this process has ..., limits ..." to
// standard error and ends the process with kOutOfMemoryExitCode, at once: destructors may need
// memory, too. Allocates nothing. Thread-safe.
[[noreturn]] void EndOutOfMemory(int64_t wanted_bytes, const char* what);

// Bytes of address space that the process may still take under its limit (`ulimit -v`); the largest
// int64 if there is no limit.
int64_t AddressSpaceRoomBytes();

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_OUT_OF_MEMORY_H_
