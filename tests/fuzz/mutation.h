// Damaged files for fuzz tests: random changes that are the same on every machine.
#ifndef DPIPE_TESTS_FUZZ_MUTATION_H_
#define DPIPE_TESTS_FUZZ_MUTATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/philox.h"

namespace dpipe::fuzz {

// How many files a test tries: the environment's DPIPE_FUZZ_ITERATIONS, or `by_default`.
int64_t NumIterations(int64_t by_default);

// The most memory that this process has had in use, in MB. Sanitizers multiply it.
int64_t PeakMemoryMb();
// What a test that reads files of a few kilobytes may have had at most.
int64_t MemoryLimitMb();

// What a file of some format is made of.
struct Material {
  std::vector<std::string> files;   // valid ones
  std::vector<std::string> tokens;  // words of the format; may be empty
};

// Below `bound` >= 1.
size_t Below(RandomStream& random, size_t bound);

// Changes `bytes` once: a bit, a byte, a number of 1 to 8 bytes in either byte order (extreme ones
// mostly), digits; parts removed, doubled, moved or taken from another file; a token put in; or the
// end cut off. At most doubles the length, and adds a kilobyte.
void Mutate(RandomStream& random, const Material& material, std::string* bytes);

// One of the files, changed one to eight times.
std::string DamagedFile(RandomStream& random, const Material& material);

}  // namespace dpipe::fuzz

#endif  // DPIPE_TESTS_FUZZ_MUTATION_H_
