#include "tests/fuzz/mutation.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>

namespace dpipe::fuzz {
namespace {

void FlipBit(RandomStream& random, std::string* bytes) {
  (*bytes)[Below(random, bytes->size())] ^= static_cast<char>(1 << random.NextBelow(8));
}

// Checks often fail at extreme values and their neighbours.
void OverwriteNumber(RandomStream& random, std::string* bytes) {
  static constexpr uint64_t kExtremes[] = {0,
                                           1,
                                           0x7f,
                                           0xff,
                                           0x7fff,
                                           0xffff,
                                           0x7fffffff,
                                           0xffffffff,
                                           0x7fffffffffffffff,
                                           0xffffffffffffffff};
  uint64_t value = kExtremes[random.NextBelow(10)];
  if (random.NextBelow(3) == 0) value += random.NextBelow(5) - 2;
  if (random.NextBelow(4) == 0) value = random.NextUint32();
  const size_t count = std::min<size_t>(size_t{1} << random.NextBelow(4), bytes->size());
  const size_t at = Below(random, bytes->size() - count + 1);
  const bool big_endian = random.NextBelow(2) == 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t shift = 8 * (big_endian ? count - 1 - i : i);
    (*bytes)[at + i] = static_cast<char>(value >> shift);
  }
}

void ReplaceDigits(RandomStream& random, std::string* bytes) {
  static const char* const kNumbers[] = {
      "-1", "0", "1", "2147483648", "9223372036854775807", "18446744073709551616", "1e999", "0.5"};
  const size_t begin = bytes->find_first_of("0123456789", Below(random, bytes->size()));
  if (begin == std::string::npos) return;
  const size_t end = std::min(bytes->size(), bytes->find_first_not_of("0123456789", begin));
  bytes->replace(begin, end - begin, kNumbers[random.NextBelow(8)]);
}

// Returns a part of `from` of at most 1,024 bytes.
std::string PartOf(RandomStream& random, const std::string& from) {
  if (from.empty()) return "";
  return from.substr(Below(random, from.size()), 1 + Below(random, 1024));
}

}  // namespace

int64_t NumIterations(int64_t by_default) {
  const char* const wanted = std::getenv("DPIPE_FUZZ_ITERATIONS");
  return wanted == nullptr ? by_default : std::max(1LL, std::atoll(wanted));
}

int64_t PeakMemoryMb() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

int64_t MemoryLimitMb() {
#if defined(__SANITIZE_ADDRESS__)
  return 1500;  // with redzones, and freed memory kept in quarantine (256 MB)
#else
  return 300;
#endif
}

size_t Below(RandomStream& random, size_t bound) {
  return random.NextBelow(static_cast<uint32_t>(std::max<size_t>(bound, 1)));
}

void Mutate(RandomStream& random, const Material& material, std::string* bytes) {
  if (bytes->empty()) *bytes = "x";
  const size_t at = Below(random, bytes->size());
  switch (random.NextBelow(12)) {
    case 0:
    case 1:
      return FlipBit(random, bytes);
    case 2:
      (*bytes)[at] = static_cast<char>(random.NextBelow(256));
      return;
    case 3:
    case 4:
    case 5:
      return OverwriteNumber(random, bytes);
    case 6:
      return ReplaceDigits(random, bytes);
    case 7:
      bytes->erase(at, 1 + Below(random, 64));
      return;
    case 8:
      bytes->insert(at, PartOf(random, *bytes));
      return;
    case 9: {
      const std::string& other = material.files[Below(random, material.files.size())];
      const std::string part = PartOf(random, other);
      bytes->replace(at, random.NextBelow(2) == 0 ? 0 : part.size(), part);
      return;
    }
    case 10:
      if (material.tokens.empty()) return FlipBit(random, bytes);
      bytes->insert(at, material.tokens[Below(random, material.tokens.size())]);
      return;
    default:
      if (random.NextBelow(4) == 0) bytes->resize(at);
      return;
  }
}

std::string DamagedFile(RandomStream& random, const Material& material) {
  std::string bytes = material.files[Below(random, material.files.size())];
  for (int count = 1 + static_cast<int>(random.NextBelow(8)); count > 0; --count) {
    Mutate(random, material, &bytes);
  }
  return bytes;
}

}  // namespace dpipe::fuzz
