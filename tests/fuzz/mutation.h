// Damages files for fuzz tests by random changes that are the same on every machine.
#ifndef DPIPE_TESTS_FUZZ_MUTATION_H_
#define DPIPE_TESTS_FUZZ_MUTATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/philox.h"

namespace dpipe::fuzz {

// Returns the number of files to try: the environment's DPIPE_FUZZ_ITERATIONS, or `by_default`.
int64_t NumIterations(int64_t by_default);

// Returns this process's peak memory in MB. Sanitizers multiply it.
int64_t PeakMemoryMb();
// Returns the maximum peak memory of a test that reads files of a few kilobytes.
int64_t MemoryLimitMb();

// The raw material for files of some format.
struct Material {
  std::vector<std::string> files;   // valid ones
  std::vector<std::string> tokens;  // words of the format; may be empty
};

// Returns a number less than `bound` >= 1.
size_t Below(RandomStream& random, size_t bound);

// Changes `bytes` once: a bit, a byte, digits, or a number of 1 to 8 bytes in either byte order
// (mostly an extreme one); removes, duplicates, moves or imports a part; inserts a token; or
// truncates. At most doubles the length and adds a kilobyte.
void Mutate(RandomStream& random, const Material& material, std::string* bytes);

// Returns one of the files, changed one to eight times.
std::string DamagedFile(RandomStream& random, const Material& material);

}  // namespace dpipe::fuzz

#endif  // DPIPE_TESTS_FUZZ_MUTATION_H_
