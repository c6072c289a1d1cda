"""Epochs and batches when the batch changes, worked by hand."""

from __future__ import annotations

import unittest

from firn.torch.course import Course


class Courses(unittest.TestCase):
    """Twelve samples of a thread in an epoch unless said otherwise."""

    def drawn(self, course: Course, first: int, end: int) -> list[tuple[int, range]]:
        """Epoch and samples of each step."""
        found = []
        for count in range(first, end):
            epoch, _, used = course.at(count)
            last = min(used + course.each, course.places)
            found.append((epoch, range(used, last)))
        return found

    def test_batches_of_one_size(self) -> None:
        course = Course(12, 5)
        self.assertEqual(course.nbatches, 3)
        self.assertEqual([course.at(n) for n in range(4)],
                         [(0, 0, 0), (0, 1, 5), (0, 2, 10), (1, 0, 0)])
        self.assertEqual([course.left(n) for n in range(4)], [3, 2, 1, 3])
        self.assertEqual(course.epochs(4), 1 + 1 / 3)
        self.assertEqual(Course(12, 5, drop_last=True).at(2), (1, 0, 0))

    def test_a_change_in_an_epoch_goes_on_with_its_next_sample(self) -> None:
        before = Course(12, 3)
        after = before.changed(6, 5)  # epoch 1 after 6 of its 12 samples
        self.assertEqual((after.epoch, after.used), (1, 6))
        found = self.drawn(before, 4, 6) + self.drawn(after, 6, 10)
        self.assertEqual(
            found,
            [(1, range(0, 3)), (1, range(3, 6)), (1, range(6, 11)),
             (1, range(11, 12)), (2, range(0, 5)), (2, range(5, 10))],
        )
        self.assertEqual([after.left(n) for n in (6, 7, 8)], [2, 1, 3])
        # half an epoch was over; each of the two steps left is a quarter
        self.assertEqual([after.epochs(n) for n in (6, 7, 8)], [1.5, 1.75, 2.0])

    def test_a_second_change_counts_from_the_first(self) -> None:
        course = Course(12, 3).changed(1, 4).changed(2, 2)
        self.assertEqual((course.epoch, course.used), (0, 7))
        self.assertEqual(course.at(5), (1, 0, 0))  # 7 + 2, + 2, + 1

    def test_steps_until_a_place(self) -> None:
        course = Course(12, 3)
        self.assertEqual([course.reaches(e) for e in (0, 1, 3)], [0, 4, 12])
        self.assertEqual(course.reaches(2, 6), 10)
        course = course.changed(2, 5)  # at sample 6 of epoch 0: 5 + 1, then 3 steps
        self.assertEqual([course.reaches(e) for e in (0, 1, 3)], [2, 4, 10])
        self.assertEqual([course.reaches(0, n) for n in (6, 7, 11, 12)], [2, 3, 3, 4])
        self.assertEqual(course.reaches(1, 6), 6)

    def test_every_sample_is_drawn_once_in_an_epoch(self) -> None:
        course, found = Course(11, 3), []
        for count in range(40):
            if count in (2, 5, 6, 13, 30):
                course = course.changed(count, 1 + count % 7)
            epoch, _, used = course.at(count)
            found += [(epoch, i) for i in range(used, min(used + course.each, 11))]
        self.assertEqual(found, [(i // 11, i % 11) for i in range(len(found))])


if __name__ == "__main__":
    unittest.main()
