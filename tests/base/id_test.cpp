// Ids of one table are not ids of another, nor integers.
#include "runtime/base/id.h"

#include <gtest/gtest.h>

#include <concepts>
#include <string>
#include <unordered_set>

namespace reprise {
namespace {

using A = Id<struct ATag>;
using B = Id<struct BTag>;

template <class V, class I>
concept Indexes = requires(V v, I i) {
  v[i];
};

static_assert(!std::convertible_to<int, A> && !std::convertible_to<A, int>);
static_assert(!std::constructible_from<A, B> && !std::equality_comparable_with<A, B>);
static_assert(Indexes<IdVector<A, std::string>, A>);
static_assert(!Indexes<IdVector<A, std::string>, B>);
static_assert(!Indexes<IdVector<A, std::string>, int>);
static_assert(sizeof(A) == sizeof(int32_t));

TEST(Id, OfNoEntryIsTheDefault) {
  EXPECT_TRUE(A().is_none());
  EXPECT_EQ(A().number(), -1);
  EXPECT_FALSE(A(0).is_none());
  EXPECT_EQ(A(3).index(), 3U);
  EXPECT_LT(A(), A(0));
  EXPECT_LT(A(1), A(2));
  EXPECT_EQ((std::unordered_set<A>{A(1), A(1), A(2)}.size()), 2U);
}

TEST(IdVector, GivesTheIdsThatItTakes) {
  IdVector<A, std::string> list;
  EXPECT_TRUE(list.empty());
  const A a = list.push_back("a");
  const A b = list.push_back("b");
  EXPECT_EQ(list[a] + list[b], "ab");
  EXPECT_TRUE(list.has(b));
  EXPECT_FALSE(list.has(A(2)));
  EXPECT_FALSE(list.has(A()));
}

TEST(IdVector, IteratesOverTheIdsThatItHadAtFirst) {
  IdVector<A, bool> list(2, true);
  for (const A id : list.ids()) list.push_back(!list[id]);
  ASSERT_EQ(list.size(), 4U);
  EXPECT_TRUE(list[A(1)]);
  EXPECT_FALSE(list[A(3)]);
}

}  // namespace
}  // namespace reprise
