# mypy: ignore-errors
# ruff: noqa: PT009, PT027
"""Tests of a Django project with jobs, as its authors would write them; tests/integrations/test_django.py has them run on both databases."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.core import mail
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from shop.jobs import confirm, counted, fails, later, mailed, moved, waits
from shop.models import Order

from windlass.errors import SandboxError
from windlass.integrations.django import app
from windlass.model import State
from windlass.testing import Sandbox


def jobs() -> int:
    with connection.cursor() as cursor:
        table = "windlass_jobs" if connection.vendor == "sqlite" else "windlass.jobs"
        cursor.execute(f"SELECT count(*) FROM {table}")
        return int(cursor.fetchone()[0])


class WithoutSandboxTest(TestCase):
    """Jobs are rows of the test's transaction."""

    def test_an_order_has_a_job(self):
        self.assertEqual(self.client.post("/orders").status_code, 202)
        self.assertEqual((Order.objects.count(), jobs()), (1, 1))

    def test_each_test_begins_with_none(self):
        self.assertEqual(jobs(), 0)
        with transaction.atomic():
            confirm.options(key="k").enqueue_in(connection, order_id=1)
        self.assertEqual(jobs(), 1)

    def test_enqueue_uses_the_connection_of_the_test(self):
        handle = confirm.options(key="k").enqueue(order_id=1)
        again = confirm.options(key="k").enqueue(order_id=1)
        many = confirm.enqueue_many([{"order_id": 2}, {"order_id": 3}])
        chain = app.chain(confirm.request(order_id=4), mailed.request(to="ada"))
        self.assertEqual((jobs(), again.id, again.created), (5, handle.id, False))
        self.assertEqual([handle.state(), many[0].state()], [State.QUEUED] * 2)
        self.assertEqual(chain.last.state(), State.WAITING)
        self.assertEqual(handle.cancel(), "cancelled")
        self.assertEqual(app.store.jobs.get(handle.id).state, State.CANCELLED)

    async def test_coroutines_too(self):
        handle = await confirm.enqueue_async(order_id=1)
        self.assertEqual(await handle.state_async(), State.QUEUED)

    def test_a_result_is_refused_not_waited_for(self):
        handle = confirm.enqueue(order_id=1)
        with self.assertRaisesRegex(SandboxError, "no worker runs it"):
            handle.result()


class SandboxTest(TestCase):
    def setUp(self):
        self.box = self.enterContext(Sandbox(app))

    def test_a_view_enqueues_a_job(self):
        with self.box.capture() as captured:
            order = self.client.post("/orders").json()["order"]
        captured.assert_enqueued("confirm", order_id=order, count=1)
        self.box.assert_enqueued("confirm", order_id=order)
        self.box.refute_enqueued("mailed")

    def test_a_job_that_was_rolled_back_is_none(self):
        with self.box.capture() as captured, self.assertRaises(ZeroDivisionError), transaction.atomic():
            confirm.enqueue_in(connection, order_id=1)
            raise ZeroDivisionError
        self.assertEqual((len(captured), self.box.jobs()), (0, []))

    def test_a_drain_runs_jobs_on_the_connection_of_the_test(self):
        order = self.client.post("/orders").json()
        self.assertEqual(self.box.drain(), 1)
        self.assertEqual(Order.objects.get(id=order["order"]).state, "confirmed")
        self.assertEqual(confirm.handle(order["job"]).result(), f"order {order['order']}")

    def test_inline_runs_at_once_and_the_connection_stays(self):
        order, before = Order.objects.create(), connection.connection
        with self.box.inline():
            confirm.enqueue(order_id=order.id)
            order.refresh_from_db()
            self.assertEqual(order.state, "confirmed")
        self.assertIs(connection.connection, before)

    def test_inline_runs_jobs_of_enqueue_in_when_their_block_ends(self):
        with self.box.inline():
            with transaction.atomic():
                order = Order.objects.create()
                with transaction.atomic():
                    confirm.enqueue_in(connection, order_id=order.id)
                self.assertEqual(Order.objects.get().state, "new", "the outer block is open")
                Order.objects.filter(id=order.id).update(note="written later")
            found = Order.objects.get()
            self.assertEqual((found.state, found.note), ("confirmed", "written later"))

    def test_inline_through_a_view(self):
        with self.box.inline():
            order = self.client.post("/orders").json()["order"]
            self.assertEqual(Order.objects.get(id=order).state, "confirmed")

    def test_inline_runs_nothing_that_was_rolled_back(self):
        with self.box.inline(), self.assertRaises(ZeroDivisionError), transaction.atomic():
            mailed.enqueue_in(connection, to="ada")
            raise ZeroDivisionError
        self.assertEqual(len(mail.outbox), 0)

    def test_async_handlers_see_the_data_of_the_test(self):
        Order.objects.create(state="confirmed")
        self.assertEqual(counted.enqueue(n=10).result(), 11)

    async def test_an_async_test(self):
        await Order.objects.acreate(state="confirmed")
        handle = await counted.enqueue_async(n=10)
        self.assertEqual(await handle.state_async(), State.QUEUED)

    def test_a_coroutine_waits_for_another_job(self):
        Order.objects.create(state="confirmed")
        self.assertEqual(waits.enqueue(n=10).result(), 22)

    def test_transactions_of_handlers(self):
        order = Order.objects.create()
        job = moved.enqueue(order_id=order.id)
        self.assertEqual(job.result(), "moved")
        order.refresh_from_db()
        self.assertEqual(order.note, "moved")
        self.assertEqual([job.kind for job in self.box.jobs()], ["moved", "mailed"])

    def test_a_failure_rolls_back_the_handlers_own_writes(self):
        order = Order.objects.create()
        job = fails.enqueue(order_id=order.id)
        self.box.drain(advance=True)
        order.refresh_from_db()
        self.assertEqual((job.state(), order.note), (State.FAILED, ""))

    def test_later_follows_the_clock(self):
        job = later.options(delay=3600).enqueue()
        self.box.drain()
        self.assertEqual(job.state(), State.SCHEDULED)
        self.box.advance(3601)
        self.assertEqual(job.result(), "later")

    def test_the_clock_may_be_moved_by_months(self):
        """On PostgreSQL history has no partition for such a day, until the job ends."""
        order = Order.objects.create()
        self.box.advance(40 * 86_400)
        self.assertEqual(later.enqueue().result(), "later")
        self.box.advance(40 * 86_400)
        self.assertEqual(moved.enqueue(order_id=order.id).result(), "moved")


class AsyncTest(TestCase):
    """The test runs on an event loop in another thread than the one that has its connection."""

    def setUp(self):
        self.box = self.enterContext(Sandbox(app))

    async def test_a_drain_runs_jobs_on_the_connection_of_the_test(self):
        order = await Order.objects.acreate()
        await confirm.enqueue_async(order_id=order.id)
        self.assertEqual(self.box.drain(), 1)
        await order.arefresh_from_db()
        self.assertEqual(order.state, "confirmed")
        handle = await counted.enqueue_async(n=10)
        self.assertEqual(self.box.drain(), 1)
        self.assertEqual(await handle.result_async(), 11)

    async def test_inline_runs_at_once(self):
        await Order.objects.acreate(state="confirmed")
        with self.box.inline():
            handle = await counted.enqueue_async(n=10)
            self.assertEqual(await handle.state_async(), State.COMPLETED)
        self.assertEqual(await handle.result_async(), 11)

    async def test_inline_runs_jobs_of_enqueue_in_when_their_block_ends(self):
        def place():
            with transaction.atomic():
                order = Order.objects.create()
                confirm.enqueue_in(connection, order_id=order.id)
            return Order.objects.get(id=order.id).state

        with self.box.inline():
            self.assertEqual(await sync_to_async(place)(), "confirmed")

    async def test_reading_and_single_runs(self):
        order = await Order.objects.acreate()
        with self.box.capture() as captured:
            handle = await confirm.enqueue_async(order_id=order.id)
        captured.assert_enqueued("confirm", order_id=order.id, count=1)
        self.box.assert_enqueued("confirm", order_id=order.id)
        self.assertEqual(self.box.run_one(handle).state, State.COMPLETED)
        self.assertEqual(self.box.only("confirm").result, f"order {order.id}")

    async def test_sync_calls_of_the_code_under_test(self):
        await Order.objects.acreate(state="confirmed")
        self.assertEqual(counted.enqueue(n=10).result(), 11)

    async def test_from_another_thread(self):
        handle = await counted.enqueue_async(n=10)
        await sync_to_async(self.box.drain)()
        self.assertEqual(await handle.result_async(), 10)


class SandboxOfALoopTest(TestCase):
    """Its own thread has another connection: SQLite's test database in memory was locked, and no test said why."""

    async def test_it_is_refused(self):
        with self.assertRaisesRegex(SandboxError, "make it in setUp"):
            Sandbox(app)

    async def test_it_is_made_in_the_thread_of_the_test(self):
        box = await sync_to_async(Sandbox)(app)
        handle = await counted.enqueue_async(n=10)
        self.assertEqual((box.drain(), await handle.result_async()), (1, 10))
        await sync_to_async(box.close)()


class CommittedTest(TransactionTestCase):
    def test_each_test_begins_without_jobs(self):
        self.assertEqual(jobs(), 0)
        confirm.options(key="k").enqueue(order_id=1)

    def test_each_test_begins_without_jobs_of_the_others(self):
        self.assertEqual(jobs(), 0)
        self.assertTrue(confirm.options(key="k").enqueue(order_id=1).created)

    def test_inline_runs_after_the_commit(self):
        with Sandbox(app) as box, box.inline():
            with transaction.atomic():
                order = Order.objects.create()
                confirm.enqueue_in(connection, order_id=order.id)
                self.assertEqual(Order.objects.get().state, "new")
            self.assertEqual(Order.objects.get().state, "confirmed")

    def test_a_view(self):
        with Sandbox(app) as box:
            order = self.client.post("/orders").json()["order"]
            box.drain()
        self.assertEqual(Order.objects.get(id=order).state, "confirmed")
